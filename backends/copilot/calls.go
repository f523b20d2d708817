package copilot

import "encoding/json"

// What is asked of copilot. Fields that it takes by their presence are
// pointers or have no omitempty.

type connectParams struct {
	TaskKinds []string `json:"supportedTaskKinds"`
}

type providerConfig struct {
	Type        string `json:"type"`
	WireAPI     string `json:"wireApi,omitempty"`
	BaseURL     string `json:"baseUrl"`
	APIKey      string `json:"apiKey,omitempty"`
	BearerToken string `json:"bearerToken,omitempty"`
}

// toolParams is a tool of the host's. It overrides a built-in tool of its
// name, and is not asked for: the host runs it and can refuse.
type toolParams struct {
	Name           string          `json:"name"`
	Description    string          `json:"description,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Overrides      bool            `json:"overridesBuiltInTool"`
	SkipPermission bool            `json:"skipPermission"`
}

// sessionParams are those of session.create and session.resume: whole, every
// time. What a repository, the user's folder or GitHub could add is off.
type sessionParams struct {
	SessionID         string             `json:"sessionId"`
	ClientName        string             `json:"clientName"`
	Model             string             `json:"model,omitempty"`
	Effort            string             `json:"reasoningEffort,omitempty"`
	Tools             []toolParams       `json:"tools"`
	System            *systemMessage     `json:"systemMessage,omitempty"`
	AvailableTools    []string           `json:"availableTools"`
	ExcludedTools     []string           `json:"excludedTools,omitempty"`
	FilterPrecedence  string             `json:"toolFilterPrecedence"`
	Provider          *providerConfig    `json:"provider,omitempty"`
	GitHubToken       string             `json:"gitHubToken,omitempty"`
	Capabilities      *modelCapabilities `json:"modelCapabilities,omitempty"`
	RequestPermission bool               `json:"requestPermission"`
	RequestUserInput  bool               `json:"requestUserInput"`
	Hooks             bool               `json:"hooks"`
	WorkingDirectory  string             `json:"workingDirectory"`
	AddDirs           []string           `json:"additionalDirectories,omitempty"`
	Streaming         bool               `json:"streaming"`
	SubAgentStreaming bool               `json:"includeSubAgentStreamingEvents"`
	EnvValueMode      string             `json:"envValueMode"`
	LargeOutput       map[string]any     `json:"largeOutput"`
	ToolSearch        map[string]bool    `json:"toolSearch"`
	Memory            map[string]bool    `json:"memory"`
	ConfigDiscovery   bool               `json:"enableConfigDiscovery"`
	SkipInstructions  bool               `json:"skipCustomInstructions"`
	OnDemand          bool               `json:"enableOnDemandInstructionDiscovery"`
	FileHooks         bool               `json:"enableFileHooks"`
	HostGit           bool               `json:"enableHostGitOperations"`
	SessionStore      bool               `json:"enableSessionStore"`
	Skills            bool               `json:"enableSkills"`
	Telemetry         bool               `json:"enableSessionTelemetry"`
	SkipEmbedding     bool               `json:"skipEmbeddingRetrieval"`
	EmbeddingCache    string             `json:"embeddingCacheStorage"`
	AgentsLocalOnly   bool               `json:"customAgentsLocalOnly"`
	Coauthor          bool               `json:"coauthorEnabled"`
	Schedule          bool               `json:"manageScheduleEnabled"`
	Experimental      bool               `json:"isExperimentalMode"`
	MCPOAuthStorage   string             `json:"mcpOAuthTokenStorage"`
	ContinuePending   bool               `json:"continuePendingWork"`
}

type systemMessage struct {
	Mode    string `json:"mode"`
	Content string `json:"content"`
}

type modelCapabilities struct {
	Supports supports `json:"supports"`
	Limits   limits   `json:"limits"`
}

type supports struct {
	Vision bool  `json:"vision"`
	Effort *bool `json:"reasoningEffort,omitempty"`
}

type limits struct {
	Vision visionLimits `json:"vision"`
}

type visionLimits struct {
	MaxImages int      `json:"max_prompt_images"`
	MaxSize   int      `json:"max_prompt_image_size"`
	Types     []string `json:"supported_media_types"`
}

type sendParams struct {
	SessionID      string          `json:"sessionId"`
	Prompt         string          `json:"prompt"`
	Attachments    []attachment    `json:"attachments,omitempty"`
	Mode           string          `json:"mode,omitempty"`
	ResponseFormat *responseFormat `json:"responseFormat,omitempty"`
}

const modeImmediate = "immediate"

type attachment struct {
	Type        string `json:"type"` // blob
	Data        string `json:"data"`
	MimeType    string `json:"mimeType"`
	DisplayName string `json:"displayName,omitempty"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"jsonSchema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type sessionOnly struct {
	SessionID string `json:"sessionId"`
}

type effortParams struct {
	SessionID string `json:"sessionId"`
	Effort    string `json:"reasoningEffort"`
}

type taskParams struct {
	SessionID string `json:"sessionId"`
	ID        string `json:"id"`
}

type taskList struct {
	Tasks []task `json:"tasks"`
}

// task is a command or an agent that runs beside the turn, or did.
type task struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	Description string `json:"description"`
	Command     string `json:"command"`
	LogPath     string `json:"logPath"`
	Attachment  string `json:"attachmentMode"`
}

type permissionAnswer struct {
	SessionID string   `json:"sessionId"`
	RequestID string   `json:"requestId"`
	Result    decision `json:"result"`
}

type decision struct {
	Kind     string `json:"kind"`
	Feedback string `json:"feedback,omitempty"`
}

type toolAnswer struct {
	SessionID string     `json:"sessionId"`
	RequestID string     `json:"requestId"`
	Result    hostResult `json:"result"`
}

// hostResult is a result as the model gets it. An empty text would reach it as
// garbage, and an error of the call would lose its words.
type hostResult struct {
	Text   string         `json:"textResultForLlm"`
	Binary []binaryResult `json:"binaryResultsForLlm,omitempty"`
	Type   string         `json:"resultType"` // success, failure
	Error  string         `json:"error,omitempty"`
}

type binaryResult struct {
	Data        string `json:"data"`
	MimeType    string `json:"mimeType"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}
