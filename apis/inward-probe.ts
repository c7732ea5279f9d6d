/**
 * Connections to a node that others make for its guarded apply (docs/guarded-apply.md): what an
 * agent asks the controller, what the controller asks another agent, and the answers. They name
 * probes of the configuration, which the controllers have too, or nodewall's own, whose ports the
 * controllers know: nobody can ask for another address or port.
 */

import { isIP } from 'node:net';
import { present } from '../lib/sharing/present.ts';
import type { InwardProbeConfig, ProbeTarget } from './config.ts';
import { MOST_INWARD, OWN_INWARD } from './validate/probes.ts';

export interface InwardQuestion {
  readonly probes: readonly AskedProbe[];
  /** That each connection has; at most INWARD_PATIENCE.connection. */
  readonly milliseconds: number;
}

export interface AskedProbe {
  readonly name: string;
  /**
   * The prober that made it before, and shall again: from elsewhere it would prove nothing. Absent:
   * anybody.
   */
  readonly prober?: string;
}

export interface InwardAnswer {
  /** In any order; a probe that is absent was not made. */
  readonly results: readonly InwardResult[];
}

export type InwardResult = NotMade | Made;

/** Nobody could make it: that says nothing of the node. */
export interface NotMade {
  readonly name: string;
  readonly notMade: string;
}

export interface Made extends ProbeOutcome {
  readonly name: string;
  /** The name of a Node, or of the controller. */
  readonly prober: string;
  /** To which address of the node. */
  readonly address: string;
}

export interface ProbeOutcome {
  /** Null: there was an answer. */
  readonly error: string | null;
  /** The address that the prober's socket had; null: not known. */
  readonly source: string | null;
}

/** An agent's answer to a ProbeUpdate. */
export interface PeerAnswer extends ProbeOutcome {
  readonly id: string;
}

/** Those of the configuration, and nodewall's own. */
const MOST_ASKED = MOST_INWARD + OWN_INWARD.length;
/** Milliseconds that a prober has for a connection, and beyond them an agent for the answer. */
export const INWARD_PATIENCE = { connection: 3_000, onTheWay: 1_500 } as const;
/** Bytes: of a question, an answer, or what controllers pass on. */
export const MOST_PROBES_BODY = 16 << 10;
/** The longest name of a Node or controller, and the longest error. */
const LONGEST_NAME = 253;
const LONGEST_REASON = 500;

/** The connection to make to a Node with these addresses, in its own order; null: it has none. */
export function inwardConnection(
  { family, target }: Pick<InwardProbeConfig, 'family' | 'target'>,
  addresses: readonly string[],
): ProbeTarget | null {
  const address = addresses.find((text) => family === null || isIP(text) === family);
  if (address === undefined) return null;
  if (target.kind !== 'http') return { ...target, address };
  const url = new URL(target.url);
  url.hostname = isIP(address) === 6 ? `[${address}]` : address;
  return { ...target, address, url: url.href };
}

interface Problem {
  readonly problem: string;
}

type Fields<T> = Readonly<Partial<Record<keyof T, unknown>>>;

/** Unknown fields are ignored: agents may be newer. */
export function parseInwardQuestion(value: unknown): InwardQuestion | Problem {
  const { probes, milliseconds } = Object(value) as Fields<InwardQuestion>;
  if (!Array.isArray(probes) || probes.length > MOST_ASKED)
    return { problem: `probes: must be a list of at most ${MOST_ASKED}` };
  if (typeof milliseconds !== 'number' || !(milliseconds > 0))
    return { problem: 'milliseconds: must be a number above 0' };
  const asked: AskedProbe[] = [];
  for (const item of probes) {
    const { name, prober } = Object(item) as Fields<AskedProbe>;
    if (!isName(name) || !(prober === undefined || isName(prober)))
      return { problem: 'probes: each must have a name, and may have a prober' };
    asked.push({ name, ...present({ prober }) });
  }
  return { probes: asked, milliseconds: Math.min(milliseconds, INWARD_PATIENCE.connection) };
}

export function parseInwardAnswer(value: unknown): InwardAnswer | Problem {
  const { results } = Object(value) as Fields<InwardAnswer>;
  if (!Array.isArray(results) || results.length > MOST_ASKED || !results.every(isResult))
    return { problem: 'results: must be a list of results' };
  return { results };
}

export function parsePeerAnswer(value: unknown): PeerAnswer | Problem {
  const { id } = Object(value) as Fields<PeerAnswer>;
  if (!isName(id) || !isOutcome(value)) return { problem: 'must have id, error and source' };
  const { error, source } = value;
  return { id, error, source };
}

function isResult(value: unknown): value is InwardResult {
  const { name, notMade, prober, address } = Object(value) as Fields<NotMade & Made>;
  if (!isName(name)) return false;
  if (notMade !== undefined) return isReason(notMade);
  return isName(prober) && isName(address) && isOutcome(value);
}

function isOutcome(value: unknown): value is ProbeOutcome {
  const { error, source } = Object(value) as Fields<ProbeOutcome>;
  return (error === null || isReason(error)) && (source === null || (isName(source) && isIP(source) !== 0));
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_NAME;
}

function isReason(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_REASON;
}
