import { NODEWALL } from '../program.ts';
import type { Dataplane } from './dataplane.ts';
import { GuardedNode } from './guarded-node.ts';
import { type SettableClock, settableClock } from './settable-clock/settable-clock.ts';
import { until } from './until.ts';

/** A port that the confirmed rules of every lane close. */
export const CLOSED = 20_000;

export interface Lane {
  readonly guarded: GuardedNode;
  /** Of the agent alone. */
  readonly clock: SettableClock;
  /** A port that no other trial has named: it tells what is in force. */
  marker(): number;
}

/**
 * Nodes with guarded apply, each in namespaces of its own. Trials mostly wait for windows, so many
 * run side by side.
 */
export class GuardLanes {
  readonly lanes: readonly Lane[];

  static async create(dataplane: Dataplane, count: number): Promise<GuardLanes> {
    let marker = 30_000;
    const lane = async (): Promise<Lane> => {
      const clock = await settableClock(NODEWALL);
      const guarded = await GuardedNode.create(dataplane, () => clock.program);
      return { guarded, clock, marker: () => ++marker };
    };
    const lanes: Lane[] = [];
    // One after the other: namespaces are made by many programs.
    for (let i = 0; i < count; i++) lanes.push(await lane());
    return new GuardLanes(lanes);
  }

  private constructor(lanes: readonly Lane[]) {
    this.lanes = lanes;
  }

  /** Starts the agents with these settings; resolves when their first rules are confirmed. */
  async start(guard: object): Promise<void> {
    await this.each(async ({ guarded }) => {
      await guarded.open(CLOSED, 'Drop');
      await guarded.start(guard);
      await confirmed(guarded);
    });
  }

  /** Runs so many trials, each lane one after the other. */
  async run(trials: number, one: (lane: Lane, trial: number) => Promise<void>): Promise<void> {
    let next = 0;
    await this.each(async (lane) => {
      while (next < trials) await one(lane, next++);
    });
  }

  async each(one: (lane: Lane) => Promise<void>): Promise<void> {
    const ended = await Promise.allSettled(this.lanes.map(one));
    for (const each of ended) if (each.status === 'rejected') throw each.reason;
  }

  async close(): Promise<void> {
    await this.each(async ({ guarded, clock }) => {
      await guarded.close();
      await clock.close();
    });
  }
}

async function confirmed(guarded: GuardedNode): Promise<void> {
  const isSaved = async () => (await guarded.file('node-state.jsonl')).includes(String(CLOSED));
  await until('rules are confirmed', isSaved, { limit: 120_000, detail: () => guarded.agent.log() });
}
