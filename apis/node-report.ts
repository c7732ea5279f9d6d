import { parseAddress } from '../lib/net/address.ts';
import { DATAPLANE_NAMES } from './config.ts';
import { isWireGuardKey } from './egress/node-egress.ts';
import { API_GROUPS } from './objects.ts';
import { MOST_PLATFORM_ENTRIES } from './platform.ts';
import {
  BOOLEAN,
  COUNT,
  changed,
  decode,
  FLAG,
  InvalidError,
  integer,
  list,
  nullable,
  type Of,
  object,
  oneOf,
  type Shape,
  TIME,
  text,
  tuple,
  where,
  word,
} from './schema/shape.ts';

/**
 * An agent's report about its node: `PUT NODE_VIEWS_PATH/NODE/status`. Unknown fields are left out:
 * agents may be newer than their controller.
 */

/** Maximum length of NodeReport.failing, and of NodeReport.tried. */
export const MOST_FAILING = 100;
/** Maximum length of NodeTotals.rules. */
export const MOST_RULE_TOTALS = 100;
/** Maximum length of NodeEgressReport.problems. */
export const MOST_EGRESS_PROBLEMS = 5;
const MOST_ADDRESSES = 10_000;
const MOST_FEATURES = 64;

/** In NodeReport.features: the agent steers as its view says. */
export const EGRESS_FEATURE = 'egress';
/**
 * Features that a rule may need, and that agents of earlier versions ignore. `established`:
 * RuleSource.established.
 */
export const AGENT_FEATURES = ['established'] as const;
export type AgentFeature = (typeof AGENT_FEATURES)[number];

const NAME = text(253);
/**
 * Text without the characters that control a terminal (escapes, text direction, line breaks),
 * because people read statuses and events on terminals.
 */
const shown = (longest: number): Shape<string> =>
  changed(text(longest), (one) => one.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' '));
const REASON = shown(2048);
const REVISION = nullable(word(512));
const ADDRESS = where(text(64), 'an IP address', (one) => parseAddress(one) !== null);
const KEY = where(text(), 'a WireGuard key', isWireGuardKey);

const VERSION_OF_POLICY = {
  apiGroup: oneOf(...API_GROUPS),
  policy: NAME,
  generation: integer(Number.MIN_SAFE_INTEGER),
};

/** A rule, or a whole policy, that a node cannot enforce. */
export type FailingRule = Of<typeof FAILING_RULE>;
const FAILING_RULE = object(
  {
    ...VERSION_OF_POLICY,
    /** Null if the whole policy fails. */
    rule: nullable(shown(253)),
    reason: REASON,
  },
  {
    /**
     * It was rolled back (guarded apply), and the version before is in force. Absent: it was not.
     */
    rolledBack: FLAG,
    /** Its rules are in force, and match nothing here. Absent: that is not so. */
    notEnforced: FLAG,
  },
);

/** A version of a policy that is in force and not confirmed yet (guarded apply). */
export type TriedPolicy = Of<typeof TRIED_POLICY>;
const TRIED_POLICY = object(VERSION_OF_POLICY, {
  /** It is not in force yet: the confirmed rules are proven first. Absent: it is. */
  isWaiting: FLAG,
  /** Why it is not confirmed: probes that fail since the change. Absent: none does. */
  reason: REASON,
});

/** Counted for as long as the node has the rule, over restarts of the agent. */
export type RuleTotal = readonly [id: string, packets: number, bytes: number];
const RULE_TOTAL: Shape<RuleTotal> = tuple(word(64), COUNT, COUNT);

/** Counts of a node: what the controllers' metrics of all nodes are made of. */
export type NodeTotals = Of<typeof NODE_TOTALS>;
const NODE_TOTALS = object(
  {
    /**
     * Times that a third party changed what the agent keeps in the kernel, since the agent started.
     */
    drifts: COUNT,
    /** Changes that guarded apply rolled back, since the agent started. */
    rollbacks: COUNT,
    /** Records of flows and of egress gateways that were not written, since the agent started. */
    recordsLost: COUNT,
    /** Packets that rules dropped or rejected, since the agent started. */
    denied: COUNT,
    /** Rules in force from which the traffic of the failsafe list is exempt. */
    failsafeRules: COUNT,
  },
  {
    /**
     * The enforced rules that drop or reject and were hit, sorted by id: at most
     * `MOST_RULE_TOTALS`. Absent: nothing is enforced now.
     */
    rules: list(RULE_TOTAL, MOST_RULE_TOTALS),
    /** There are more rules than in `rules`. */
    isCut: FLAG,
  },
);

/** A node's report on egress gateways. */
export type NodeEgressReport = Of<typeof EGRESS_REPORT>;
const EGRESS_REPORT = object(
  {},
  {
    /** Why it steers nothing, whatever its view says; absent: it does what its view says. */
    refused: REASON,
    /** The address of its end of the tunnel that is in force; absent: none is. */
    tunnel: ADDRESS,
    /**
     * The public key of its WireGuard device; absent: it has none, as egress.encryption is None.
     */
    key: KEY,
    /**
     * Objects that the network configuration lacks, whose connections are dropped; absent: nothing.
     */
    problems: list(REASON, MOST_EGRESS_PROBLEMS),
  },
);

const PLATFORM_ROW = object({ entry: word(64), reason: REASON }, { addresses: COUNT });

export type NodeReport = Of<typeof NODE_REPORT>;
export const NODE_REPORT = object(
  {
    node: text(),
    /** Revision of the last bookmark received; null before the first. */
    revision: REVISION,
    /** The revision in force; null if no state from the controller is. */
    enforced: REVISION,
    /** Whether the feature gate lets the agent enforce anything. */
    enabled: BOOLEAN,
    failing: list(FAILING_RULE, MOST_FAILING),
    /** Number of policies in force. */
    policies: COUNT,
    /** The node's own addresses, as its kernel reports them. */
    hostAddresses: list(ADDRESS, MOST_ADDRESSES),
    /** Version of nodewall. */
    version: word(64),
    dataplane: oneOf(...DATAPLANE_NAMES),
    /** UTC. In reports that the controller shows: the time at which the report arrived. */
    time: TIME,
  },
  {
    /**
     * Reason of `nodewall off` on this node ('' if none was given): nothing is enforced. Absent if
     * nodewall is not off.
     */
    off: REASON,
    /**
     * Why the agent cannot apply the controller's whole view; the state enforced before stays in
     * force. Absent if it can.
     */
    viewError: REASON,
    /** Versions of policies that are not confirmed yet (guarded apply); absent: none. */
    tried: list(TRIED_POLICY, MOST_FAILING),
    /** The agent's support of rules beyond version 0.1: of `AGENT_FEATURES`; absent: none. */
    features: list(word(64), MOST_FEATURES),
    /** Absent: the agent has nothing to say of egress gateways, or is of a version without them. */
    egress: EGRESS_REPORT,
    /** The agent's counts; absent: it is of a version before this field. */
    totals: NODE_TOTALS,
    /**
     * The failsafe list has these, as the node needs them to carry pods (PlatformRow). Absent: it
     * is of a version before this field, or enforces nothing.
     */
    platform: list(PLATFORM_ROW, MOST_PLATFORM_ENTRIES),
  },
);

/** Throws InvalidError. */
export function parseReport(value: unknown, node: string): NodeReport {
  const report = decode(NODE_REPORT, value);
  if (report.node !== node) throw new InvalidError(`node: must be ${node}, as in the path`);
  return report;
}

export const NODE_PHASES = [
  /** All rules that were sent to it are in force. */
  'Enforced',
  /** Not yet. */
  'Pending',
  /** Rules that it could not enforce; the version before is in force. */
  'Failing',
  /** It cannot apply the controller's view; the rules before stay in force. */
  'NotFollowing',
  /** Somebody switched it off (`nodewall off`). */
  'Off',
  /** The feature gate is off. */
  'Disabled',
  /** Its agent has not reported for `SILENCE`; the last rules are in force. */
  'Silent',
  /** Its agent has never reported. */
  'Unknown',
] as const;
export type NodePhase = (typeof NODE_PHASES)[number];

/**
 * Milliseconds after the last report from which a node is silent; agents report every 33 to 66 s.
 */
export const SILENCE = 180_000;

/** @param now milliseconds since 1970 */
export function nodePhase(report: NodeReport | null, now: number): NodePhase {
  if (report === null) return 'Unknown';
  const { time, enabled, enforced, revision, failing, off, viewError } = report;
  if (now - Date.parse(time) > SILENCE) return 'Silent';
  if (off !== undefined) return 'Off';
  if (!enabled) return 'Disabled';
  if (viewError !== undefined) return 'NotFollowing';
  if (failing.length > 0) return 'Failing';
  return enforced !== null && enforced === revision ? 'Enforced' : 'Pending';
}
