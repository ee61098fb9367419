/* session_joined.h: joins the functions of allogram.h to the session (the recording) of an agent, a
 * shared library that allogram loads into programs. */
#ifndef AG_SESSION_JOINED_H
#define AG_SESSION_JOINED_H

/* Called once, when the recorder has started. */
void ag_host_join(void);
/* Ends the counting of functions, before the agent leaves the process. */
void ag_host_leave(void);

#endif
