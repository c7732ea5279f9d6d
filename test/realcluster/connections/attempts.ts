/**
 * A program for one network namespace: makes the connections that its standard input lists, all at
 * once, and prints what became of each.
 */
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import { json } from 'node:stream/consumers';

export interface Attempt {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
  /** The client's own port. */
  readonly from: number;
}

/** An echo; a reset or an ICMP error; nothing. */
export type Outcome = 'open' | 'refused' | 'dropped';

/** For a first answer (milliseconds); who expects one makes the attempt again. */
const WAIT = 3_000;
/** A datagram is sent so many times in it. */
const DATAGRAMS = 3;

/** The kernel says EPERM of a packet that its own rules drop. */
const outcomeOf = ({ code }: NodeJS.ErrnoException): Outcome => (code === 'EPERM' ? 'dropped' : 'refused');

function overTcp({ address, port, from }: Attempt): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, localPort: from });
    const end = (outcome: Outcome): void => {
      socket.destroy();
      resolve(outcome);
    };
    socket.setTimeout(WAIT, () => end('dropped'));
    socket.on('connect', () => socket.write('x'));
    socket.on('data', () => end('open'));
    socket.on('end', () => end('refused'));
    socket.on('error', (error) => end(outcomeOf(error)));
  });
}

function overUdp({ address, port, from }: Attempt): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    const timers: NodeJS.Timeout[] = [];
    const end = (outcome: Outcome): void => {
      for (const timer of timers) clearTimeout(timer);
      socket.removeAllListeners().on('error', () => {});
      socket.close();
      resolve(outcome);
    };
    const send = (): void =>
      socket.send('x', (error) => {
        if (error !== null) end(outcomeOf(error));
      });
    socket.on('error', (error) => end(outcomeOf(error)));
    socket.on('message', () => end('open'));
    socket.bind(from, () =>
      socket.connect(port, address, () => {
        send();
        for (let i = 1; i < DATAGRAMS; i++) timers.push(setTimeout(send, (i * WAIT) / DATAGRAMS));
        timers.push(setTimeout(() => end('dropped'), WAIT));
      }),
    );
  });
}

if (import.meta.main) {
  const attempts = (await json(process.stdin)) as readonly Attempt[];
  const outcomes = await Promise.all(
    attempts.map((one) => (one.protocol === 'tcp' ? overTcp(one) : overUdp(one))),
  );
  process.stdout.write(JSON.stringify(outcomes));
}
