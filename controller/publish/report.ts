import { DATAPLANE_NAMES, type DataplaneName } from '../../apis/dataplanes.ts';
import { isWireGuardKey } from '../../apis/egress/wireguard-key.ts';
import { API_GROUPS, type ApiGroup } from '../../apis/objects.ts';
import {
  type FailingRule,
  MOST_EGRESS_PROBLEMS,
  MOST_FAILING,
  MOST_RULE_TOTALS,
  type NodeEgressReport,
  type NodeReport,
  type NodeTotals,
  type RuleTotal,
  type TriedPolicy,
} from '../../apis/stream.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { present } from '../../lib/sharing/present.ts';

const MOST_ADDRESSES = 10_000;
const LONGEST = { name: 253, reason: 2048, revision: 512, version: 64, feature: 64, rule: 64 };
const MOST_FEATURES = 64;

/**
 * Validates the report of an agent, and removes control characters from its texts; or returns the
 * problems. Unknown fields are left out: agents may be newer than their controller.
 */
export function parseReport(
  value: unknown,
  node: string,
): NodeReport | { readonly problems: readonly string[] } {
  const problems: string[] = [];
  if (!isRecord(value)) return { problems: ['the report must be an object'] };
  const must = (holds: boolean, field: string, what: string): void => {
    if (!holds) problems.push(`${field}: must be ${what}`);
  };
  const { revision, enforced, enabled, off, viewError, failing, tried, policies } = value;
  const { hostAddresses, version, features, egress, totals, dataplane, time } = value;
  must(value.node === node, 'node', `${node}, as in the path`);
  for (const [field, of] of Object.entries({ revision, enforced }))
    must(of === null || isWord(of, LONGEST.revision), field, 'a revision or null');
  must(typeof enabled === 'boolean', 'enabled', 'true or false');
  for (const [field, text] of Object.entries({ off, viewError }))
    must(text === undefined || isText(text, LONGEST.reason), field, 'a reason, or absent');
  must(isCount(policies), 'policies', 'a count');
  must(isWord(version, LONGEST.version), 'version', 'a version');
  must(
    features === undefined || isWordList(features),
    'features',
    `a list of no more than ${MOST_FEATURES} words, or absent`,
  );
  const steering = egress === undefined ? undefined : toEgress(egress);
  must(steering !== null, 'egress', 'refused, tunnel, key, problems, or absent');
  const counts = totals === undefined ? undefined : toTotals(totals);
  must(counts !== null, 'totals', 'counts, or absent');
  must(DATAPLANE_NAMES.includes(dataplane as DataplaneName), 'dataplane', DATAPLANE_NAMES.join(' or '));
  must(isText(time, 40) && !Number.isNaN(Date.parse(time)), 'time', 'a time (ISO 8601)');
  const addresses = Array.isArray(hostAddresses) ? hostAddresses.slice(0, MOST_ADDRESSES + 1) : null;
  must(
    addresses?.every((one) => typeof one === 'string' && parseAddress(one) !== null) ?? false,
    'hostAddresses',
    'a list of IP addresses',
  );
  must((addresses?.length ?? 0) <= MOST_ADDRESSES, 'hostAddresses', `no more than ${MOST_ADDRESSES}`);
  must(
    Array.isArray(failing) && failing.length <= MOST_FAILING,
    'failing',
    `a list of no more than ${MOST_FAILING}`,
  );
  const rules = Array.isArray(failing) ? failing.slice(0, MOST_FAILING).map(toFailing) : [];
  for (const [i, rule] of rules.entries())
    must(rule !== null, `failing[${i}]`, 'apiGroup, policy, generation, rule, reason');
  const isList = tried === undefined || (Array.isArray(tried) && tried.length <= MOST_FAILING);
  const trials = Array.isArray(tried) ? tried.slice(0, MOST_FAILING).map(toTried) : [];
  must(
    isList && !trials.includes(null),
    'tried',
    'a list of apiGroup, policy, generation and perhaps reason, or absent',
  );
  if (problems.length > 0) return { problems };
  return {
    node,
    revision: revision as string | null,
    enforced: enforced as string | null,
    enabled: enabled as boolean,
    ...(off === undefined ? {} : { off: harmless(off as string) }),
    ...(viewError === undefined ? {} : { viewError: harmless(viewError as string) }),
    failing: rules.filter((rule) => rule !== null),
    ...(trials.length === 0 ? {} : { tried: trials.filter((one) => one !== null) }),
    policies: policies as number,
    hostAddresses: addresses as string[],
    version: version as string,
    ...(features === undefined ? {} : { features: features as readonly string[] }),
    ...(steering == null ? {} : { egress: steering }),
    ...(counts == null ? {} : { totals: counts }),
    dataplane: dataplane as DataplaneName,
    time: time as string,
  };
}

function toFailing(value: unknown): FailingRule | null {
  if (!isRecord(value)) return null;
  const { apiGroup, policy, generation, rule, reason } = value;
  if (!API_GROUPS.includes(apiGroup as ApiGroup) || !isText(policy, LONGEST.name)) return null;
  if (!Number.isSafeInteger(generation) || !isText(reason, LONGEST.reason)) return null;
  if (rule !== null && !isText(rule, LONGEST.name)) return null;
  return {
    apiGroup: apiGroup as ApiGroup,
    policy,
    generation: generation as number,
    rule: rule === null ? null : harmless(rule),
    reason: harmless(reason),
    ...(value.rolledBack === true ? { rolledBack: true } : {}),
  };
}

/** Null if it is not valid. */
function toTried(value: unknown): TriedPolicy | null {
  if (!isRecord(value)) return null;
  const { apiGroup, policy, generation, isWaiting, reason } = value;
  if (!API_GROUPS.includes(apiGroup as ApiGroup) || !isText(policy, LONGEST.name)) return null;
  if (!Number.isSafeInteger(generation)) return null;
  if (reason !== undefined && !isText(reason, LONGEST.reason)) return null;
  return {
    apiGroup: apiGroup as ApiGroup,
    policy,
    generation: generation as number,
    ...(isWaiting === true ? { isWaiting } : {}),
    ...(reason === undefined ? {} : { reason: harmless(reason) }),
  };
}

/** Null if it is not valid. */
function toEgress(value: unknown): NodeEgressReport | null {
  if (!isRecord(value)) return null;
  const { refused, tunnel, key, problems } = value;
  if (refused !== undefined && !isText(refused, LONGEST.reason)) return null;
  if (tunnel !== undefined && (!isText(tunnel, 64) || parseAddress(tunnel) === null)) return null;
  if (key !== undefined && !isWireGuardKey(key)) return null;
  if (problems !== undefined && !isProblems(problems)) return null;
  return {
    ...(refused === undefined ? {} : { refused: harmless(refused) }),
    ...present({ tunnel, key }),
    ...(problems === undefined ? {} : { problems: problems.map(harmless) }),
  };
}

/** Null if it is not valid. */
function toTotals(value: unknown): NodeTotals | null {
  if (!isRecord(value)) return null;
  const { drifts, rollbacks, recordsLost, denied, failsafeRules, rules, isCut } = value;
  const counts = { drifts, rollbacks, recordsLost, denied, failsafeRules };
  if (!Object.values(counts).every(isCount)) return null;
  if (rules !== undefined && !isRuleTotals(rules)) return null;
  return {
    ...(counts as Record<keyof typeof counts, number>),
    ...(rules === undefined
      ? {}
      : { rules: rules.map(([id, packets, bytes]): RuleTotal => [id, packets, bytes]) }),
    ...(isCut === true ? { isCut } : {}),
  };
}

function isRuleTotals(value: unknown): value is readonly RuleTotal[] {
  if (!Array.isArray(value) || value.length > MOST_RULE_TOTALS) return false;
  return value.every(
    (one) => Array.isArray(one) && isWord(one[0], LONGEST.rule) && isCount(one[1]) && isCount(one[2]),
  );
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isProblems(value: unknown): value is readonly string[] {
  if (!Array.isArray(value) || value.length > MOST_EGRESS_PROBLEMS) return false;
  return value.every((one) => isText(one, LONGEST.reason));
}

/**
 * Replaces by a blank all characters that control a terminal (escapes, text direction, line
 * breaks), because people read statuses and events on terminals.
 */
function harmless(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ');
}

function isWordList(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > MOST_FEATURES) return false;
  return value.every((one) => isWord(one, LONGEST.feature));
}

/** Printable ASCII without blanks. */
function isWord(value: unknown, longest: number): value is string {
  return isText(value, longest) && /^[!-~]*$/.test(value);
}

function isText(value: unknown, longest: number): value is string {
  return typeof value === 'string' && value.length <= longest;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
