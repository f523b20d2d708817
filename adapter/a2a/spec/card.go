package spec

// AgentCard is who an agent is and how to talk to it. Members at their default
// value are left out: a signature is made over what remains.
type AgentCard struct {
	Name                string                    `json:"name"`
	Description         string                    `json:"description"`
	SupportedInterfaces []AgentInterface          `json:"supportedInterfaces"`
	Provider            *AgentProvider            `json:"provider,omitempty"`
	Version             string                    `json:"version"`
	DocumentationURL    string                    `json:"documentationUrl,omitempty"`
	Capabilities        AgentCapabilities         `json:"capabilities"`
	SecuritySchemes     map[string]SecurityScheme `json:"securitySchemes,omitempty"`
	DefaultInputModes   []string                  `json:"defaultInputModes"`
	DefaultOutputModes  []string                  `json:"defaultOutputModes"`
	Skills              []AgentSkill              `json:"skills"`
	Signatures          []CardSignature           `json:"signatures,omitempty"`
	IconURL             string                    `json:"iconUrl,omitempty"`
}

// AgentInterface is an address at which the agent answers.
type AgentInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	Tenant          string `json:"tenant,omitempty"`
	ProtocolVersion string `json:"protocolVersion"`
}

// AgentProvider is who offers the agent.
type AgentProvider struct {
	Organization string `json:"organization"`
	URL          string `json:"url"`
}

// AgentCapabilities is what the agent can do beside the required.
type AgentCapabilities struct {
	Streaming         bool             `json:"streaming,omitempty"`
	PushNotifications bool             `json:"pushNotifications,omitempty"`
	Extensions        []AgentExtension `json:"extensions,omitempty"`
	ExtendedAgentCard bool             `json:"extendedAgentCard,omitempty"`
}

// AgentExtension is an extension that the agent knows.
type AgentExtension struct {
	URI         string         `json:"uri"`
	Description string         `json:"description,omitempty"`
	Required    bool           `json:"required,omitempty"`
	Params      map[string]any `json:"params,omitempty"`
}

// SecurityScheme is one way to prove who one is; this server has one alone.
type SecurityScheme struct {
	HTTPAuth *HTTPAuthScheme `json:"httpAuthSecurityScheme,omitempty"`
}

// HTTPAuthScheme is a scheme of the Authorization header.
type HTTPAuthScheme struct {
	Description string `json:"description,omitempty"`
	Scheme      string `json:"scheme"`
}

// AgentSkill is something that the agent can do.
type AgentSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples,omitempty"`
	InputModes  []string `json:"inputModes,omitempty"`
	OutputModes []string `json:"outputModes,omitempty"`
}

// CardSignature is a JSON Web Signature over the rest of the card.
type CardSignature struct {
	Protected string         `json:"protected"`
	Signature string         `json:"signature"`
	Header    map[string]any `json:"header,omitempty"`
}
