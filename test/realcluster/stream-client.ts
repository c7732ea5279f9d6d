/**
 * One TCP connection to an echo server (`probe listen tcp:PORT`), on which a numbered line goes out
 * every 10 ms until SIGTERM; then the count is printed. Usage: node stream-client.ts HOST PORT.
 * Runs in a network namespace (stream.ts).
 */
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import type { StreamCount } from './stream.ts';

const INTERVAL = 10;
/** The last lines may be on their way when the signal comes. */
const LAST = 30_000;

const [host = '', port = ''] = process.argv.slice(2);
let sent = 0;
let received = 0;
let longestGap = 0;
let latest = performance.now();

const socket = connect({ host, port: Number(port), noDelay: true });
socket.once('connect', () => {
  process.stdout.write('connected\n');
  latest = performance.now();
});
socket.once('error', (error) => finish(error.message));
socket.once('close', () => finish('closed'));
createInterface({ input: socket }).on('line', (line) => {
  if (Number(line) !== received) finish(`line ${line} came in place of ${received}`);
  received++;
  longestGap = Math.max(longestGap, performance.now() - latest);
  latest = performance.now();
  if (isEnding && received === sent) finish(null);
});
const timer = setInterval(() => socket.write(`${sent++}\n`), INTERVAL);
let isEnding = false;
process.once('SIGTERM', () => {
  isEnding = true;
  clearInterval(timer);
  if (received === sent) finish(null);
  setTimeout(() => finish('not all lines came back'), LAST);
});

function finish(problem: string | null): void {
  const count: StreamCount = { sent, received, longestGap: Math.round(longestGap), problem };
  process.stdout.write(`${JSON.stringify(count)}\n`, () => process.exit(0));
}
