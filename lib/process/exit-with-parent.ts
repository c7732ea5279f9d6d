/** Milliseconds. */
const LOOK = 500;

/**
 * Ends this process, which was started with a channel (child_process.fork), when its parent has
 * ended. Node.js emits no `disconnect` while a socket that was sent waits for the parent's answer,
 * so the channel is looked at besides.
 */
export function exitWithParent(process: NodeJS.Process): void {
  process.on('disconnect', () => process.exit());
  setInterval(() => {
    if (process.connected !== true) process.exit();
  }, LOOK).unref();
}
