import { randomBytes } from 'node:crypto';
import type { InwardProbeConfig, ProbeTarget } from '../../apis/config.ts';
import {
  type AskedProbe,
  type InwardAnswer,
  type InwardQuestion,
  type InwardResult,
  inwardConnection,
  type NotMade,
  OWN_INWARD,
  type PeerAnswer,
  type ProbeOutcome,
} from '../../apis/probes.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { attempt } from '../../lib/process/connection-attempt.ts';

interface InwardProbingOptions {
  /** The probes of the configuration. */
  readonly probes: readonly InwardProbeConfig[];
  /**
   * The port of nodewall's own probe (OWN_INWARD) to a node; null: the node serves nothing of that
   * kind.
   */
  readonly ownPort: (name: OwnInward, node: string) => number | null;
  /** The addresses of a Node object, in its order; none: there is no such Node. */
  readonly addressesOf: (node: string) => readonly string[];
  readonly isLeader: () => boolean;
  /** The name of this controller in answers. */
  readonly self: string;
  readonly questions: PeerQuestions;
  readonly elsewhere: Elsewhere;
}

/** The other replicas. */
export interface Elsewhere {
  /** Makes those that any of them can. */
  ask(node: string, question: InwardQuestion): Promise<readonly InwardResult[]>;
  /** An answer to a question of theirs. */
  answered(prober: string, answer: PeerAnswer): void;
}

/** Connections of this controller at the same time. */
const MOST_AT_ONCE = 64;

type OwnInward = (typeof OWN_INWARD)[number];
type Asked = AskedProbe & { readonly node: string; readonly milliseconds: number };

/**
 * Connections to nodes for their guarded apply. Each replica makes those that it can: as the leader
 * itself, and by the agents that it serves; for the others it asks the other replicas.
 */
export class InwardProbing {
  readonly #options: InwardProbingOptions;
  #inProgress = 0;

  constructor(options: InwardProbingOptions) {
    this.#options = options;
  }

  /** An agent's question. */
  async answer(node: string, question: InwardQuestion): Promise<InwardAnswer> {
    const here = await this.answerHere(node, question);
    const isLeft = ({ name }: AskedProbe): boolean =>
      here.some((one) => one.name === name && 'notMade' in one && this.#probe(name, node) !== undefined);
    const left = question.probes.filter(isLeft);
    const others =
      left.length === 0 ? [] : await this.#options.elsewhere.ask(node, { ...question, probes: left });
    const made = new Map(others.flatMap((one) => ('notMade' in one ? [] : [[one.name, one] as const])));
    return { results: here.map((one) => made.get(one.name) ?? one) };
  }

  /** Makes those that this replica can; of the others, says why not. */
  async answerHere(node: string, { probes, milliseconds }: InwardQuestion): Promise<readonly InwardResult[]> {
    return await Promise.all(probes.map((one) => this.#make({ node, milliseconds, ...one })));
  }

  /** An agent's answer to a question of this replica, or another one. */
  answered(prober: string, answer: PeerAnswer): void {
    const { questions, elsewhere } = this.#options;
    if (!questions.answered(prober, answer)) elsewhere.answered(prober, answer);
  }

  answeredHere(prober: string, answer: PeerAnswer): void {
    this.#options.questions.answered(prober, answer);
  }

  /** A probe of the configuration, or nodewall's own. */
  #probe(name: string, node: string): InwardProbeConfig | undefined {
    const { probes, ownPort } = this.#options;
    const own = OWN_INWARD.find((one) => one === name);
    if (own === undefined) return probes.find((probe) => probe.name === name);
    const port = ownPort(own, node);
    return port === null ? undefined : { name, from: 'peer', family: null, target: { kind: 'tcp', port } };
  }

  async #make(asked: Asked): Promise<InwardResult> {
    const { name, node } = asked;
    const probe = this.#probe(name, node);
    if (probe === undefined) return notMade(name, isOwn(name) ? NOTHING_THERE : NOT_CONFIGURED);
    const target = inwardConnection(probe, this.#options.addressesOf(node));
    if (target === null) return notMade(name, 'the Node object has no such address');
    switch (probe.from) {
      case 'controller':
        return await this.#asController(asked, target);
      case 'peer':
        return await this.#byPeer(asked, target);
    }
  }

  async #asController({ name, milliseconds }: Asked, target: ProbeTarget): Promise<InwardResult> {
    const { isLeader, self } = this.#options;
    if (!isLeader()) return notMade(name, 'no controller leads now');
    if (target.kind === 'icmp') return notMade(name, 'the controller sends no echo requests');
    if (this.#inProgress >= MOST_AT_ONCE) return notMade(name, 'the controller makes too many probes now');
    this.#inProgress++;
    const outcome = await attempt(target, { milliseconds }).finally(() => this.#inProgress--);
    return { name, prober: self, address: target.address, ...outcome };
  }

  async #byPeer(
    { node, name, milliseconds, prober: wanted }: Asked,
    target: ProbeTarget,
  ): Promise<InwardResult> {
    const { questions } = this.#options;
    const prober = questions.choose(node, wanted);
    if (prober === null)
      return notMade(name, wanted === undefined ? 'no other agent is free to make it' : `${wanted} is away`);
    const outcome = await questions.ask(prober, target, milliseconds);
    if (outcome === null) return notMade(name, `${prober} did not answer`);
    return { name, prober, address: target.address, ...outcome };
  }
}

const NOT_CONFIGURED = "the controller's configuration has no such probe to nodes in guard.probes";
const NOTHING_THERE = 'the controller knows no such server on the node';

function isOwn(name: string): boolean {
  return OWN_INWARD.some((one) => one === name);
}

function notMade(name: string, reason: string): NotMade {
  return { name, notMade: reason };
}

/** The agents that this controller serves, as far as they make probes for others. */
export interface ProberStreams {
  probers(): readonly string[];
  /** False: there is no such stream any more. */
  send(node: string, update: ProbeUpdate): boolean;
}

interface PeerQuestionsOptions {
  readonly streams: ProberStreams;
  readonly clock: Clock;
  /** Returns numbers from 0 up to 1. */
  readonly random: () => number;
}

/** Questions without an answer at the same time, to one agent and to all. */
const MOST_OF_PROBER = 8;
const MOST = 256;
/** Milliseconds that an answer may need besides the connection. */
const ON_THE_WAY = 1_000;

interface Question {
  readonly prober: string;
  readonly done: (outcome: ProbeOutcome | null) => void;
}

/** Asks agents for connections to other nodes, by their streams; they answer by requests. */
export class PeerQuestions {
  readonly #options: PeerQuestionsOptions;
  /** By id. */
  readonly #open = new Map<string, Question>();

  constructor(options: PeerQuestionsOptions) {
    this.#options = options;
  }

  /**
   * The agent to ask for a connection to `node`; null: none is here, or all are busy.
   * @param wanted absent: any other one
   */
  choose(node: string, wanted: string | undefined): string | null {
    const { streams, random } = this.#options;
    const all = streams.probers().filter((one) => one !== node && (wanted === undefined || one === wanted));
    const free = all.filter((one) => this.#openOf(one) < MOST_OF_PROBER);
    return free[Math.floor(random() * free.length)] ?? null;
  }

  /** Null: no answer. */
  ask(prober: string, target: ProbeTarget, milliseconds: number): Promise<ProbeOutcome | null> {
    const { streams, clock } = this.#options;
    if (this.#open.size >= MOST) return Promise.resolve(null);
    const { promise, resolve } = Promise.withResolvers<ProbeOutcome | null>();
    const id = randomBytes(16).toString('hex');
    const done = (outcome: ProbeOutcome | null): void => {
      this.#open.delete(id);
      cancel();
      resolve(outcome);
    };
    const cancel = clock.after(milliseconds + ON_THE_WAY, () => done(null));
    this.#open.set(id, { prober, done });
    if (!streams.send(prober, { type: 'probe', id, target, milliseconds })) done(null);
    return promise;
  }

  /** False: this controller did not ask this agent, or no longer waits. */
  answered(prober: string, { id, error, source }: PeerAnswer): boolean {
    const question = this.#open.get(id);
    if (question?.prober !== prober) return false;
    question.done({ error, source });
    return true;
  }

  #openOf(prober: string): number {
    return this.#open.values().reduce((count, one) => count + (one.prober === prober ? 1 : 0), 0);
  }
}
