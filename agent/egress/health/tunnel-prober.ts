import type { Echo, EchoReply } from 'nftables-napi';
import type { NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { linkLocal } from '../render/tunnel.ts';
import { type Answers, LOST, type LossThresholds, slotsOf, UNASKED, withAnswer } from './lost-gateways.ts';

/** Milliseconds between two questions to a gateway node. */
export const PROBE_INTERVAL = 200;
const PATIENCE: LossThresholds = { losses: 3, answers: 5 };
/** Answers to older questions count no more; a second and a half is longer than any tunnel. */
const KEPT_QUESTIONS = 8;
/** Read in a turn: more than the socket's buffer holds, so a flood does not stop the agent. */
const MOST_REPLIES = 4_096;

/** A socket on the tunnel's device. */
interface EchoPort {
  request(echo: Echo): void;
  /** Those that wait; empty: none is left. */
  replies(): readonly EchoReply[];
  close(): void;
}

interface TunnelProberOptions {
  readonly clock: Clock;
  readonly open: () => EchoPort;
  /** 16 bits that tell the questions of this process from others. */
  readonly identifier: number;
  /** Goes with each question, so that nobody answers who was not asked. */
  readonly secret: Uint8Array;
  /** Nodes that were lost when an earlier process ended: they must answer before they are used. */
  readonly lost: readonly string[];
  /** Called when a node is lost or back. */
  readonly changed: (node: string, isLost: boolean) => void;
  /** Called with the error that keeps nodes from being asked; null: there is none any more. */
  readonly hindered: (error: Error | null) => void;
}

interface Target {
  readonly end: TunnelEnd;
  readonly address: Uint8Array;
  answers: Answers;
  /** When each question was sent, by its number; the newest is the last. */
  readonly sent: Map<number, number>;
  /** Whether the last turn asked: otherwise silence says nothing. */
  isAsked: boolean;
  /** Milliseconds; null: no answer yet. */
  roundTrip: number | null;
}

/**
 * Asks each gateway node that slots lead to, through the tunnel: one ICMPv6 echo each 200 ms for a
 * node, however many slots there are. The gateway's kernel answers. Replies are read when the next
 * question is due, from the socket's buffer: a process that was busy or stopped meanwhile takes
 * nobody for lost. What could not be sent says nothing either.
 */
export class TunnelProber {
  readonly #options: TunnelProberOptions;
  readonly #targets = new Map<string, Target>();
  /** As an earlier process knew them; empty once this one asks. */
  #lostBefore: ReadonlySet<string>;
  #port: EchoPort | null = null;
  #sequence = 0;
  #hindrance = '';
  #cancel: (() => void) | null = null;

  constructor(options: TunnelProberOptions) {
    this.#options = options;
    this.#lostBefore = new Set(options.lost);
  }

  /** Asks these from now on. Of a node that is asked already all is kept. */
  ask(ends: ReadonlyMap<string, TunnelEnd>): void {
    for (const [node, { end }] of this.#targets)
      if (ends.get(node)?.mac !== end.mac) this.#targets.delete(node);
    for (const [node, end] of ends) {
      const answers = this.#lostBefore.has(node) ? LOST : UNASKED;
      if (!this.#targets.has(node)) this.#targets.set(node, toTarget(end, answers));
    }
    this.#lostBefore = new Set();
    if (this.#targets.size === 0) this.close();
    else if (this.#cancel === null) this.#turn();
  }

  /** Sorted. */
  lost(): string[] {
    const lost = [...this.#targets].flatMap(([node, { answers }]) => (answers.isLost ? [node] : []));
    return [...this.#lostBefore, ...lost].sort();
  }

  /** Milliseconds of the last answer of each node; null: none yet. */
  roundTrips(): ReadonlyMap<string, number | null> {
    return new Map([...this.#targets].map(([node, { roundTrip }]) => [node, roundTrip]));
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#port?.close();
    this.#port = null;
  }

  #turn(): void {
    const { clock } = this.#options;
    this.#cancel = clock.after(PROBE_INTERVAL, () => this.#turn());
    try {
      const port = this.#port ?? this.#options.open();
      this.#port = port;
      this.#judge(this.#heard(port));
      this.#send(port);
    } catch (error) {
      // The device is gone, or is another one now.
      this.#port?.close();
      this.#port = null;
      for (const target of this.#targets.values()) target.isAsked = false;
      this.#tellHindrance(error as Error);
    }
  }

  /** The nodes of which an answer came since the last turn. */
  #heard(port: EchoPort): Set<string> {
    const now = this.#options.clock.now();
    const heard = new Set<string>();
    const byAddress = new Map([...this.#targets].map(([node, it]) => [hex(it.address), { node, it }]));
    for (let count = 0; count < MOST_REPLIES; ) {
      const replies = port.replies();
      if (replies.length === 0) break;
      count += replies.length;
      for (const reply of replies) {
        const found = byAddress.get(hex(reply.address));
        const sent = found?.it.sent.get(reply.sequence);
        if (found === undefined || sent === undefined || !this.#isOwn(reply)) continue;
        heard.add(found.node);
        found.it.roundTrip = Math.max(0, now - reply.age - sent);
      }
    }
    return heard;
  }

  #isOwn({ identifier, data }: EchoReply): boolean {
    return identifier === this.#options.identifier && Buffer.compare(data, this.#options.secret) === 0;
  }

  #judge(heard: ReadonlySet<string>): void {
    for (const [node, target] of this.#targets) {
      const isHeard = heard.has(node);
      if (!target.isAsked && !isHeard) continue;
      const before = target.answers;
      target.answers = withAnswer(before, isHeard, PATIENCE);
      if (target.answers.isLost !== before.isLost) this.#options.changed(node, target.answers.isLost);
    }
  }

  #send(port: EchoPort): void {
    const { clock, identifier, secret } = this.#options;
    this.#sequence = (this.#sequence + 1) & 0xffff;
    const sequence = this.#sequence;
    let failure: Error | null = null;
    for (const target of this.#targets.values()) {
      target.isAsked = false;
      try {
        port.request({ address: target.address, identifier, sequence, data: secret });
        target.isAsked = true;
        target.sent.set(sequence, clock.now());
        const [oldest] = target.sent.keys();
        if (target.sent.size > KEPT_QUESTIONS && oldest !== undefined) target.sent.delete(oldest);
      } catch (error) {
        failure = error as Error;
      }
    }
    this.#tellHindrance(failure);
  }

  /** Once for each kind of error. */
  #tellHindrance(error: Error | null): void {
    const text = error?.message ?? '';
    if (text === this.#hindrance) return;
    this.#hindrance = text;
    this.#options.hindered(error);
  }
}

function toTarget(end: TunnelEnd, answers: Answers): Target {
  const address = parseAddress(linkLocal(end.mac));
  return {
    end,
    address: address === null ? new Uint8Array(16) : packAddress(address),
    answers,
    sent: new Map(),
    isAsked: false,
    roundTrip: null,
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/**
 * The gateway nodes that policies lead to, through the tunnel. A gateway that no policy leads to
 * any more does not know this node, and does not answer; its connections go on.
 */
export function probedEnds({ outcomes, slots, peers }: NodeEgress): ReadonlyMap<string, TunnelEnd> {
  const used = new Set([...outcomes.values()].flatMap(({ action }) => slotsOf(action)));
  return new Map(
    [...used].flatMap((number) => {
      const slot = slots.get(number);
      const end = slot?.take === 0 ? peers.get(slot.node) : undefined;
      return end === undefined ? [] : [[end.node, end] as const];
    }),
  );
}
