.PHONY: agents
agents: ## install the pinned agents (image/agents.list) into the user's cache
	@sh image/install-agents.sh
