/**
 * Runs in the pod. For each line `once` of standard input: one new connection. For `watch`: a new
 * connection every 20 ms and one that stays open, until `stop`. Prints what happens as lines of
 * JSON.
 */
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export interface CallerEvent {
  /** seen: of a new connection. opened, reset: of the one that stays open. */
  readonly event: 'seen' | 'opened' | 'reset';
  /** The source that the server sees; null: it did not answer in time. */
  readonly address: string | null;
  readonly port: number;
  /** CLOCK_MONOTONIC in milliseconds. */
  readonly at: number;
}

const EVERY = 20;
/** Milliseconds until no answer counts as none. */
const PATIENCE = 500;
const [host = '', port = ''] = process.argv.slice(2);
const now = (): number => Number(process.hrtime.bigint()) / 1e6;
function say(event: CallerEvent['event'], address: string | null, own: number): void {
  const said: CallerEvent = { event, address, port: own, at: now() };
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

if (import.meta.main) {
  let stop = (): void => undefined;
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    if (line === 'once') ask((address, own) => say('seen', address, own));
    else if (line === 'watch') stop = watch();
    else stop();
  });
  lines.on('close', () => process.exit(0));
}

function dial(answered: (text: string) => void, ended: () => void): Socket {
  const socket = connect({ host, port: Number(port), noDelay: true });
  socket.on('connect', () => socket.write('?\n'));
  socket.on('data', (bytes) => answered(String(bytes)));
  socket.on('error', () => undefined); // `close` follows
  socket.on('close', ended);
  return socket;
}

/** One new connection. */
function ask(done: (address: string | null, port: number) => void): void {
  let answer: string | null = null;
  const socket = dial(
    (text) => {
      answer = text;
      socket.destroy();
    },
    () => {
      clearTimeout(late);
      done(...answerOf(answer ?? ''));
    },
  );
  // Data that came while this process was not scheduled is in time: an immediate comes later.
  const late = setTimeout(() => setImmediate(() => socket.destroy()), PATIENCE);
}

/** The text of one line, or several. */
function answerOf(text: string): [address: string | null, port: number] {
  const [address = '', own = '0'] = text.split('\n')[0]?.split(' ') ?? [];
  return [address === '' ? null : address, Number(own)];
}

function watch(): () => void {
  let last: string | null = '';
  const timer = setInterval(() => {
    ask((address, own) => {
      if (address === last) return;
      last = address;
      say('seen', address, own);
    });
  }, EVERY);
  const kept = keep();
  return () => {
    clearInterval(timer);
    kept();
  };
}

/** Keeps one connection open, and opens it again when it is reset. */
function keep(): () => void {
  let isStopped = false;
  let socket = open();
  function open(): Socket {
    let isUp = false;
    const fresh = dial(
      (text) => {
        if (!isUp) say('opened', ...answerOf(text));
        isUp = true;
      },
      () => {
        clearInterval(sending);
        if (isStopped) return;
        if (isUp) say('reset', null, 0);
        setTimeout(() => {
          if (!isStopped) socket = open();
        }, EVERY);
      },
    );
    const sending = setInterval(() => fresh.write('?\n'), EVERY);
    // Not for as long as Linux would send its SYN again.
    setTimeout(() => isUp || fresh.destroy(), PATIENCE);
    return fresh;
  }
  return () => {
    isStopped = true;
    socket.destroy();
  };
}
