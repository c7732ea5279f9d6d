/**
 * Runs inside a client's namespace and makes connections: a request per line of standard input, an
 * answer per line of standard output. One process a namespace, so that a call costs no start of
 * Node.js. Ends with its input.
 */
import { createSocket } from 'node:dgram';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

export interface CallRequest {
  readonly id: number;
  readonly protocol: 'tcp' | 'udp';
  readonly family: 4 | 6;
  readonly src: string;
  readonly dst: string;
  readonly port: number;
  /** Milliseconds until no answer counts as silence. */
  readonly patience: number;
  /** A new try (TCP) every 2 ms until one ends so; all in `patience`. Absent: one try. */
  readonly until?: CallOutcome;
}

/**
 * answered: what was sent came back. refused: a TCP reset or an ICMP error came back. silence:
 * nothing did.
 */
export type CallOutcome = 'answered' | 'refused' | 'silence' | `failed: ${string}`;

export interface CallAnswer {
  readonly id: number;
  readonly outcome: CallOutcome;
  /** CLOCK_MONOTONIC in milliseconds, the same for every process of the machine. */
  readonly at: number;
  /** How many tries were made. */
  readonly tries: number;
}

const TRY_EVERY = 2;

/** ICMP administratively prohibited arrives as EHOSTUNREACH (IPv4, icmp(7)) or EACCES (IPv6). */
const REFUSALS = ['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'EACCES'];

interface Attempt {
  readonly outcome: Promise<CallOutcome>;
  cancel(): void;
}

if (import.meta.main) {
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => void answer(JSON.parse(line)));
  lines.on('close', () => process.exit(0));
}

async function answer(request: CallRequest): Promise<void> {
  const { id } = request;
  const { outcome, tries } =
    request.until === undefined ? { outcome: await once(request), tries: 1 } : await repeated(request);
  const reply: CallAnswer = { id, outcome, at: now(), tries };
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

/** CLOCK_MONOTONIC in milliseconds. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

async function once(request: CallRequest): Promise<CallOutcome> {
  const attempt = request.protocol === 'tcp' ? tcp(request) : udp(request);
  // Data that came while this process was not scheduled is in time: an immediate comes later.
  const timer = setTimeout(() => setImmediate(() => attempt.cancel()), request.patience);
  const outcome = await attempt.outcome;
  clearTimeout(timer);
  return outcome;
}

/**
 * Tries that get no answer stay open meanwhile, and are closed before the kernel sends their SYN
 * again (1 s).
 */
function repeated(request: CallRequest): Promise<{ outcome: CallOutcome; tries: number }> {
  return new Promise((resolve) => {
    const open: Attempt[] = [];
    const end = (outcome: CallOutcome): void => {
      clearInterval(timer);
      clearTimeout(limit);
      for (const attempt of open) attempt.cancel();
      resolve({ outcome, tries: open.length });
    };
    const timer = setInterval(() => {
      const attempt = tcp(request);
      open.push(attempt);
      void attempt.outcome.then((outcome) => outcome === request.until && end(outcome));
    }, TRY_EVERY);
    const limit = setTimeout(() => end('silence'), request.patience);
  });
}

function tcp({ src, dst, port }: CallRequest): Attempt {
  const socket = connect({ host: dst, port, localAddress: src, noDelay: true });
  const outcome = new Promise<CallOutcome>((resolve) => {
    socket.on('connect', () => socket.write('hello'));
    socket.on('data', () => resolve('answered'));
    socket.on('error', (error) => resolve(toOutcome(error)));
    socket.on('close', () => resolve('silence'));
  });
  void outcome.then(() => socket.destroy());
  return { outcome, cancel: () => socket.destroy() };
}

function udp({ family, src, dst, port }: CallRequest): Attempt {
  const socket = createSocket(family === 4 ? 'udp4' : 'udp6');
  let isOpen = true;
  const close = (): void => {
    if (isOpen) socket.close();
    isOpen = false;
  };
  const outcome = new Promise<CallOutcome>((resolve) => {
    socket.on('message', () => resolve('answered'));
    socket.on('error', (error) => resolve(toOutcome(error)));
    socket.on('close', () => resolve('silence'));
    // A connected socket is told of ICMP errors.
    socket.bind({ address: src }, () => {
      socket.connect(port, dst, () => socket.send('hello'));
    });
  });
  void outcome.then(close);
  return { outcome, cancel: close };
}

function toOutcome(error: NodeJS.ErrnoException): CallOutcome {
  return REFUSALS.includes(error.code ?? '') ? 'refused' : `failed: ${error.code ?? error.message}`;
}
