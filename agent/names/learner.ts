import { LRUCache } from 'lru-cache';
import { Nflog, type NflogBatch } from 'nftables-napi';
import type { Address } from '../../lib/net/address.ts';
import { keepOpen } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LineLog } from '../../lib/process/log.ts';
import { addressesFor, askedFor, MAX_RECORDS, questionOf, udpPayload } from './answer-packet.ts';
import type { AddressRecord } from './name-entry.ts';

/** The fields of a DNS question that both the question and its answer have. */
interface AskedQuestion {
  /** Address and port of the node's end, as one text. */
  readonly by: string;
  /** The ID of the message. */
  readonly id: number;
  /** Lower case, without a trailing dot. */
  readonly name: string;
}

/**
 * Milliseconds after which an answer is no longer accepted: applications have asked again by then.
 */
const BELIEVED = 30_000;
/** Limit of questions that wait for answers; beyond it, the oldest are forgotten. */
const MAX_WAITING = 8192;

/**
 * The questions that the node sent and that have no answer yet. To forge an answer, an attacker
 * must guess the question's ID and port, as for any resolver (RFC 5452 section 4); the first answer
 * ends the wait.
 */
function askedQuestions(clock: Pick<Clock, 'now'>) {
  const waiting = new LRUCache<string, number>({ max: MAX_WAITING });
  return {
    ask(question: AskedQuestion): void {
      waiting.set(keyOf(question), clock.now() + BELIEVED);
    },
    /** Whether the question was asked and has no answer yet; from now on it has one. */
    answer(question: AskedQuestion): boolean {
      const key = keyOf(question);
      const until = waiting.get(key);
      waiting.delete(key);
      return until !== undefined && clock.now() <= until;
    },
  };
}

function keyOf({ by, id, name }: AskedQuestion): string {
  return `${by} ${id} ${name}`;
}

/** Counters of the packets, by outcome. */
interface LearnerCounts {
  /** Packets received. */
  packets: number;
  /** Answers from which addresses were learnt. */
  learnt: number;
  /** Answers that are not used: for names that no policy names, failures, other record types. */
  ignored: number;
  /** Copies of questions that the node sent. */
  questions: number;
  /** Answers without a recent question of the node. */
  unasked: number;
  /** Packets that are not DNS answers, or cannot be parsed. */
  garbage: number;
  /** Fragments and truncated packets. */
  incomplete: number;
  /** Answers with the TC flag (records are missing); the records that they have are learnt. */
  cut: number;
  /** Not read: over the limit of work per second. */
  skipped: number;
}

interface LearnerOptions {
  readonly clock: Clock;
  /** Whether a peer of a policy matches the name. */
  wants(name: string): boolean;
  learnt(name: string, records: readonly AddressRecord[]): void;
}

const DNS = 53;

function endOf({ family, value }: Address, port: number): string {
  return `${family}/${value}/${port}`;
}

/** Limits of work per second: less than a tenth of a processor. */
const PACKETS_A_SECOND = 10_000;
const RECORDS_A_SECOND = 20 * MAX_RECORDS;

/**
 * Reads copies of DNS questions and answers, from the IP header on. An answer is used only if its
 * question was seen before: the kernel copies only questions to the servers that are believed, and
 * only answers that conntrack ties to a question (agent/render/topology.ts). Never throws; the work
 * per second is limited.
 */
export function learner({ clock, wants, learnt }: LearnerOptions) {
  const counts: LearnerCounts = {
    packets: 0,
    learnt: 0,
    ignored: 0,
    questions: 0,
    unasked: 0,
    garbage: 0,
    incomplete: 0,
    cut: 0,
    skipped: 0,
  };
  const asked = askedQuestions(clock);
  const budget = { until: Number.NEGATIVE_INFINITY, packets: 0, records: 0 };

  function renewBudget(): void {
    const now = clock.now();
    if (now < budget.until) return;
    Object.assign(budget, { until: now + 1000, packets: PACKETS_A_SECOND, records: RECORDS_A_SECOND });
  }

  function look(packet: Uint8Array): keyof LearnerCounts {
    if (budget.packets-- <= 0) return 'skipped';
    const opened = udpPayload(packet);
    if (opened.kind !== 'payload') return opened.kind;
    if (opened.destinationPort === DNS) {
      const question = askedFor(opened.payload);
      if (question !== null && wants(question.name)) {
        asked.ask({ by: endOf(opened.source, opened.sourcePort), ...question });
      }
      return 'questions';
    }
    const question = questionOf(opened.payload);
    if (question === 'garbage') return 'garbage';
    if (question === 'nothing' || !wants(question.name)) return 'ignored';
    const { id, name } = question;
    const by = endOf(opened.destination, opened.destinationPort);
    if (!asked.answer({ by, id, name })) return 'unasked';
    if (question.isCut) counts.cut++;
    if (budget.records <= 0) return 'skipped';
    budget.records -= Math.min(question.answers, MAX_RECORDS);
    let records: AddressRecord[];
    try {
      records = addressesFor(question, opened.payload);
    } catch {
      return 'garbage';
    }
    if (records.length === 0) return 'ignored';
    learnt(question.name, records);
    return 'learnt';
  }

  return {
    counts: counts as Readonly<LearnerCounts>,
    read(packets: readonly { readonly payload: Uint8Array }[]): void {
      renewBudget();
      for (const { payload } of packets) {
        counts.packets++;
        counts[look(payload)]++;
      }
    },
  };
}

/** A source of copies of DNS answers. */
export interface AnswerSource {
  close(): Promise<void>;
}

export type AnswerListener = (batch: Pick<NflogBatch, 'packets' | 'lost'>) => void;
export type OpenAnswers = (listener: AnswerListener) => AnswerSource;

/** Bytes that nflog copies of a packet at most: nearly the largest UDP packet. */
const WHOLE_PACKET = 65_531;

export interface NflogAnswersOptions {
  readonly group: number;
  readonly clock: Clock;
  readonly log: LineLog;
  /** Default: the addon's Nflog; replaced in tests. */
  readonly create?: (
    options: ConstructorParameters<typeof Nflog>[0],
    listener: (batch: NflogBatch) => void,
  ) => Pick<Nflog, 'close'>;
}

/**
 * Opens an NFLOG group. If that fails, names are still resolved; the failure is logged once and
 * retried.
 */
export function nflogAnswers({ group, clock, log, create }: NflogAnswersOptions): OpenAnswers {
  const openGroup = create ?? ((options, listener) => new Nflog(options, listener));
  return (listener) => {
    let isFailing = false;
    return keepOpen({
      clock,
      open(failed) {
        // Without batching: the application's first packet follows the answer at once.
        const options = { group, copyRange: WHOLE_PACKET, queueThreshold: 1 };
        const nflog = openGroup(options, (batch) => {
          if (batch.packets.length > 0 || batch.lost > 0) listener(batch);
          if (batch.error !== null) failed(batch.error);
        });
        if (isFailing) log.info('reading DNS answers again', { stage: 'names', group });
        isFailing = false;
        return nflog;
      },
      failed({ message: error }) {
        const message = 'cannot read DNS answers; fqdn peers with a wildcard learn no names, retrying';
        if (!isFailing) log.error(message, { stage: 'names', group, error });
        isFailing = true;
      },
    });
  };
}
