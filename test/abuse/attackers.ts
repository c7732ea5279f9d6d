/** A process that attacks a controller until its parent disconnects, behind all others (nice 19). */
import { constants, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ATTACKS } from './attacks.ts';
import { Clients, type Ports } from './clients.ts';

export interface AttackersInput {
  readonly ports: Ports;
  readonly ca: string;
  /** Of ATTACKS. */
  readonly attacks: readonly string[];
}

/** The acts so far, by attack. */
export type AttackersAnswer = Readonly<Record<string, number>>;

/** `attack` and `pause` are answered with the acts so far. */
export type AttackersOrder = 'attack' | 'pause';

const { ports, ca, attacks } = JSON.parse(process.argv[2] ?? '') as AttackersInput;
setPriority(constants.priority.PRIORITY_LOW);
const acts: Record<string, number> = {};
let isOn = false;
let started = Promise.withResolvers<void>();
for (const name of attacks) {
  const { clients = 0, pause = 0, act } = ATTACKS[name] ?? {};
  if (act === undefined) throw new Error(`no attack is called ${name}`);
  acts[name] = 0;
  for (let client = 0; client < clients; client++) void repeat(name, pause, (all) => act(all, client));
}
process.on('message', (order: AttackersOrder) => {
  if (order === 'attack') started.resolve();
  else if (isOn) started = Promise.withResolvers();
  isOn = order === 'attack';
  process.send?.(acts satisfies AttackersAnswer);
});
process.on('disconnect', () => process.exit());

async function repeat(name: string, pause: number, act: (all: Clients) => Promise<unknown>): Promise<never> {
  const all = new Clients(ports, ca);
  for (;;) {
    await started.promise;
    // The controller refuses most of it, as it should.
    await act(all).catch(() => {});
    acts[name] = 1 + (acts[name] ?? 0);
    await sleep(pause);
  }
}
