/**
 * Makes pod interfaces in this namespace, in which an agent runs, and times until each is in its
 * group.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { RouteMonitor } from 'nftables-napi';
import { median } from '../measure/statistics.ts';
import { answer, trialInput } from './trial.ts';

interface Input {
  /** Of a process in the pods' namespace. */
  readonly pod: number;
  readonly prefix: string;
  readonly count: number;
}

const GROUP = 8;
const { pod, prefix, count } = trialInput<Input>();
/**
 * By index: when the kernel told of it, and of its group. A link that is up has an event for that.
 */
const told = new Map<number, number>();
const grouped = new Map<number, number>();
let done: () => void = () => {};
const all = new Promise<void>((resolve) => {
  done = resolve;
});
const monitor = new RouteMonitor({ kinds: ['link'] }, (events) => {
  const now = performance.now();
  for (const one of events) {
    if (one.event !== 'present' || one.object.kind !== 'link') continue;
    const { index, name, group } = one.object.link;
    if (!name.startsWith(prefix)) continue;
    if (!told.has(index)) told.set(index, now);
    if (group === GROUP && !grouped.has(index)) grouped.set(index, now);
  }
  if (grouped.size === count) done();
});
const timer = setTimeout(() => {
  throw new Error(`only ${grouped.size} of ${count} are in the group`);
}, 20_000);
const lines = Array.from(
  { length: count },
  (_, i) => `link add ${prefix}${i} up type veth peer name e${prefix}${i} netns ${pod}\n`,
);
const start = performance.now();
const ip = spawn('ip', ['-batch', '-'], { stdio: ['pipe', 'ignore', 'inherit'] });
ip.stdin.end(lines.join(''));
const made = once(ip, 'exit').then(() => performance.now());
await all;
clearTimeout(timer);
const end = Math.max(...grouped.values());
const waits = [...grouped].map(([index, at]) => at - (told.get(index) ?? Number.NaN));
await monitor.close();
answer({
  slowest: Math.max(...waits),
  middle: median(waits),
  fromCommand: end - start,
  fromLast: Math.max(0, end - (await made)),
  making: (await made) - start,
});
