// Package told is what a turn puts into an agent, whichever it is: a prompt's
// parts as texts, images and files, what a host wants of the model's calls, and
// the attachments that an agent reads with its own tools.
package told
