/* session_joined.h: the agent records, and answers for the library. */
#ifndef AG_SESSION_JOINED_H
#define AG_SESSION_JOINED_H

/* Once, when the recorder has started. */
void ag_host_join(void);
/* exit has begun: what functions counted is written. */
void ag_host_exiting(void);

#endif
