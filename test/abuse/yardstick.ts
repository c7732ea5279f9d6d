/**
 * A process that has nothing to do with the controller and does as much work as a change of a
 * policy does, ten times a second: how long that takes shows what other programs on the machine
 * take. It answers each message with the longest time (milliseconds) since the last one.
 */
/** Microseconds of processor time. */
const WORK = 20_000;
const EVERY = 100;

let longest = 0;
setInterval(() => {
  const began = performance.now();
  const before = process.threadCpuUsage();
  for (let used = 0; used < WORK; ) {
    const { user, system } = process.threadCpuUsage(before);
    used = user + system;
  }
  longest = Math.max(longest, performance.now() - began);
}, EVERY);
process.on('message', () => {
  process.send?.(longest);
  longest = 0;
});
process.on('disconnect', () => process.exit());
