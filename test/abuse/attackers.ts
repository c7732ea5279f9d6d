/**
 * A process that attacks a controller until its parent disconnects, behind all others (nice 19).
 */
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

/**
 * `attack` begins, and `pause` ends: it is answered when no act goes on any more, so that no work
 * of the attack is left for the time after it. The answer has the acts so far.
 */
export type AttackersOrder = 'attack' | 'pause';

const { ports, ca, attacks } = JSON.parse(process.argv[2] ?? '') as AttackersInput;
setPriority(constants.priority.PRIORITY_LOW);
const acts: Record<string, number> = {};
/** Resolves while the attack goes on. */
let turn = Promise.withResolvers<void>();
let isOn = false;
const going = new Set<Promise<unknown>>();
for (const name of attacks) {
  const { clients = 0, pause = 0, act } = ATTACKS[name] ?? {};
  if (act === undefined) throw new Error(`no attack is called ${name}`);
  acts[name] = 0;
  for (let client = 0; client < clients; client++) void repeat(name, pause, (all) => act(all, client));
}
process.on('message', async (order: AttackersOrder) => {
  if (order === 'attack') turn.resolve();
  else if (isOn) turn = Promise.withResolvers();
  isOn = order === 'attack';
  if (!isOn) await Promise.all(going);
  process.send?.(acts satisfies AttackersAnswer);
});
process.on('disconnect', () => process.exit());

async function repeat(name: string, pause: number, act: (all: Clients) => Promise<unknown>): Promise<never> {
  const all = new Clients(ports, ca);
  for (;;) {
    await turn.promise;
    // The controller refuses most of it, as it should.
    const acting = act(all).catch(() => {});
    going.add(acting);
    await acting;
    going.delete(acting);
    acts[name] = 1 + (acts[name] ?? 0);
    await sleep(pause);
  }
}
