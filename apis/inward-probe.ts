/**
 * Connections to a node that others make for its guarded apply (docs/guarded-apply.md): what an
 * agent asks the controller, what the controller asks another agent, and the answers. They name
 * probes of the configuration, which the controllers have too, or nodewall's own, whose ports the
 * controllers know: nobody can ask for another address or port.
 */

import { isIP } from 'node:net';
import type { InwardProbeConfig, ProbeTarget } from './config.ts';
import { changed, either, list, nullable, number, type Of, object, text, where } from './schema/shape.ts';
import { MOST_INWARD, OWN_INWARD } from './validate/probes.ts';

/** Those of the configuration, and nodewall's own. */
const MOST_ASKED = MOST_INWARD + OWN_INWARD.length;
/** Milliseconds that a prober has for a connection, and beyond them an agent for the answer. */
export const INWARD_PATIENCE = { connection: 3_000, onTheWay: 1_500 } as const;
/** Bytes: of a question, an answer, or what controllers pass on. */
export const MOST_PROBES_BODY = 16 << 10;

/** The name of a probe, a Node or a controller. */
const NAME = where(text(253), 'a name', (one) => one !== '');
const REASON = text(500);
const ADDRESS = where(text(253), 'an IP address', (one) => isIP(one) !== 0);

export type AskedProbe = Of<typeof ASKED_PROBE>;
const ASKED_PROBE = object(
  { name: NAME },
  {
    /**
     * The prober that made it before, and shall again: from elsewhere it would prove nothing.
     * Absent: anybody.
     */
    prober: NAME,
  },
);

export type InwardQuestion = Of<typeof INWARD_QUESTION>;
export const INWARD_QUESTION_FIELDS = {
  probes: list(ASKED_PROBE, MOST_ASKED),
  /** That each connection has; at most INWARD_PATIENCE.connection. */
  milliseconds: changed(
    where(number(0), 'a number above 0', (one) => one > 0),
    (one) => Math.min(one, INWARD_PATIENCE.connection),
  ),
};
export const INWARD_QUESTION = object(INWARD_QUESTION_FIELDS);

export type ProbeOutcome = Of<typeof PROBE_OUTCOME>;
const OUTCOME = {
  /** Null: there was an answer. */
  error: nullable(REASON),
  /** The address that the prober's socket had; null: not known. */
  source: nullable(ADDRESS),
};
const PROBE_OUTCOME = object(OUTCOME);

/** Nobody could make it: that says nothing of the node. */
export type NotMade = Of<typeof NOT_MADE>;
const NOT_MADE = object({ name: NAME, notMade: REASON });

export type Made = Of<typeof MADE>;
const MADE = object({
  name: NAME,
  /** The name of a Node, or of the controller. */
  prober: NAME,
  /** To which address of the node. */
  address: NAME,
  ...OUTCOME,
});

export type InwardResult = NotMade | Made;
export type InwardAnswer = Of<typeof INWARD_ANSWER>;
export const INWARD_ANSWER = object({
  /** In any order; a probe that is absent was not made. */
  results: list(either('what was made, or why not', NOT_MADE, MADE), MOST_ASKED),
});

/** An agent's answer to a ProbeUpdate. */
export type PeerAnswer = Of<typeof PEER_ANSWER>;
export const PEER_ANSWER = object({ id: NAME, ...OUTCOME });

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
