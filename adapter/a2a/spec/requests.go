package spec

// SendMessageRequest is a message with how it shall be answered.
type SendMessageRequest struct {
	Tenant        string             `json:"tenant,omitempty"`
	Message       *Message           `json:"message"`
	Configuration *SendConfiguration `json:"configuration,omitempty"`
	Metadata      Object             `json:"metadata,omitempty"`
}

// SendConfiguration is how a message shall be answered.
type SendConfiguration struct {
	AcceptedOutputModes []string    `json:"acceptedOutputModes,omitempty"`
	PushConfig          *PushConfig `json:"taskPushNotificationConfig,omitempty"`
	HistoryLength       *Int        `json:"historyLength,omitempty"`
	ReturnImmediately   bool        `json:"returnImmediately,omitempty"`
}

// GetTaskRequest asks for a task.
type GetTaskRequest struct {
	Tenant        string `json:"tenant,omitempty"`
	ID            string `json:"id"`
	HistoryLength *Int   `json:"historyLength,omitempty"` // nil: the server's default
}

// ListTasksRequest chooses tasks.
type ListTasksRequest struct {
	Tenant               string    `json:"tenant,omitempty"`
	ContextID            string    `json:"contextId,omitempty"`
	Status               TaskState `json:"status,omitempty"`
	PageSize             *Int      `json:"pageSize,omitempty"`
	PageToken            string    `json:"pageToken,omitempty"`
	HistoryLength        *Int      `json:"historyLength,omitempty"`
	StatusTimestampAfter string    `json:"statusTimestampAfter,omitempty"`
	IncludeArtifacts     bool      `json:"includeArtifacts,omitempty"`
}

// ListTasksResponse is a page of tasks. All members are always there.
type ListTasksResponse struct {
	Tasks         []*Task `json:"tasks"`
	NextPageToken string  `json:"nextPageToken"`
	PageSize      int     `json:"pageSize"`
	TotalSize     int     `json:"totalSize"`
}

// CancelTaskRequest asks for a task's end.
type CancelTaskRequest struct {
	Tenant   string `json:"tenant,omitempty"`
	ID       string `json:"id"`
	Metadata Object `json:"metadata,omitempty"`
}

// SubscribeToTaskRequest asks for a task's events.
type SubscribeToTaskRequest struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// PushConfig says where a task's events shall be sent to.
type PushConfig struct {
	Tenant         string    `json:"tenant,omitempty"`
	ID             string    `json:"id,omitempty"`
	TaskID         string    `json:"taskId,omitempty"`
	URL            string    `json:"url"`
	Token          string    `json:"token,omitempty"`
	Authentication *PushAuth `json:"authentication,omitempty"`
}

// PushAuth is what the receiver wants to see in Authorization.
type PushAuth struct {
	Scheme      string `json:"scheme"`
	Credentials string `json:"credentials,omitempty"`
}

// GetPushConfigRequest names one configuration of a task; it is also how one
// is deleted.
type GetPushConfigRequest struct {
	Tenant string `json:"tenant,omitempty"`
	TaskID string `json:"taskId"`
	ID     string `json:"id"`
}

// ListPushConfigsRequest asks for a task's configurations.
type ListPushConfigsRequest struct {
	Tenant    string `json:"tenant,omitempty"`
	TaskID    string `json:"taskId"`
	PageSize  *Int   `json:"pageSize,omitempty"`
	PageToken string `json:"pageToken,omitempty"`
}

// ListPushConfigsResponse is a page of configurations.
type ListPushConfigsResponse struct {
	Configs       []PushConfig `json:"configs"`
	NextPageToken string       `json:"nextPageToken,omitempty"`
}

// ExtendedCardRequest asks for the card that callers with a key may see.
type ExtendedCardRequest struct {
	Tenant string `json:"tenant,omitempty"`
}
