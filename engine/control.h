// The control socket of a run: control.sock in its directory, mode 0600, one JSON object per line.
//   -> {"v":1,"cmd":"pause","who":"name@host"}      <- {"ok":true,"state":"paused"}
//   -> {"v":1,"cmd":"set","key":"lr","value":3e-4,"at":120}
// Commands: status, pause, resume, checkpoint, set, stop. Unknown commands, oversized lines (64 KiB),
// malformed JSON and slow clients get an error or are dropped; they never disturb the run.
#ifndef ENGINE_CONTROL_H
#define ENGINE_CONTROL_H

#include <jansson.h>
#include <poll.h>

#include "engine/err.h"

enum { CONTROL_MAX_CLIENTS = 16, CONTROL_MAX_LINE = 65536 };

struct control_server;
// The handler gets only known commands and returns the reply (new reference), e.g.
// {"ok":true,"state":"paused"} or {"ok":false,"error":"…"}; NULL stands for "not now".
// request may hold "who", the peer's name@host.
typedef json_t *control_handler(void *user, const char *cmd, const json_t *request);
// Replaces a socket that a dead host left: the caller must hold the run's lock. The path may be longer
// than a socket's address can be.
struct control_server *control_listen(const char *run_dir, control_handler *fn, void *user,
                                      struct err *err);
int control_pollfds(struct control_server *s, struct pollfd *fds, int max); // number filled
void control_step(struct control_server *s);  // handles whatever is ready, never blocks
void control_close(struct control_server *s); // removes the socket; NULL is fine

// Client: sends one command and waits at most timeout_ms for the reply (new reference, an object),
// or NULL. "ok":false in the reply is no error here.
json_t *control_send(const char *run_dir, const char *cmd, int timeout_ms, struct err *err);
// The same with further members of the request (borrowed object; NULL = none), such as "key",
// "value" and "at" of set; its reply has "text", a sentence, and "change", as in changes.json.
json_t *control_request(const char *run_dir, const char *cmd, const json_t *members,
                        int timeout_ms, struct err *err);

#endif
