package admission

// TimeoutSeconds lets tests wait for the webhook on a busy machine.
var TimeoutSeconds = &timeoutSeconds
