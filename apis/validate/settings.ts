import { isIP, isIPv4, isIPv6 } from 'node:net';
import {
  DATAPLANE_LIMITS,
  DEFAULT_CONFIG,
  type FailsafeEntry,
  type FailsafePeers,
  NAMED_PEERS,
} from '../config.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { canonicalCidr, checkCidr, checkCidrs } from './ipblock.ts';
import { checkLabelKey, isDnsLabel, isSubdomain } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';
import { checkPort } from './service.ts';

/**
 * Checks of interfaceGroupFile, masquerade, nodeCIDRs, startupTaint, names and log that the schema
 * cannot express.
 */
export function checkSettings(raw: FieldMap, found: Findings): void {
  checkPath(raw.interfaceGroupFile, ['interfaceGroupFile'], 'or "" for none', found);
  const log = asFields(raw.log) ?? {};
  if (log.file !== 'stdout') {
    checkPath(log.file, ['log', 'file'], 'stdout, or "" for records.jsonl in the state directory', found);
  }
  checkCidrs(asFields(raw.masquerade)?.except, ['masquerade', 'except'], found);
  checkCidrs(raw.nodeCIDRs, ['nodeCIDRs'], found);
  checkServices(raw.endpointsWithoutPods, found);
  const { startupTaint } = raw;
  if (typeof startupTaint === 'string' && startupTaint !== '')
    checkLabelKey(startupTaint, ['startupTaint'], found);
  checkCidrs(asFields(raw.boot)?.ssh, ['boot', 'ssh'], found);
  const failsafe = asFields(raw.failsafe) ?? {};
  checkCidrs(failsafe.loadBalancers, ['failsafe', 'loadBalancers'], found);
  const path = ['failsafe', 'kubeletKubeconfig'];
  checkPath(failsafe.kubeletKubeconfig, path, 'or "" for the usual places', found);
  const names = asFields(raw.names) ?? {};
  for (const [index, server] of asList(names.servers).entries()) {
    if (typeof server === 'string') checkServer(server, ['names', 'servers', index], found);
  }
  checkCidrs(names.learnFrom, ['names', 'learnFrom'], found);
  checkTimes(names, found);
  checkEgressSettings(raw, found);
  checkRecordLimits(raw, log, found);
  const { group = DEFAULT_CONFIG.names.group } = names;
  if (group === (log.group ?? DEFAULT_CONFIG.log.group)) {
    const [mine, other] = 'group' in names ? ['names', 'log'] : ['log', 'names'];
    found.error([mine, 'group'], `${show(group)} is also ${other}.group; they need different groups`);
  }
}

function checkServices(listed: unknown, found: Findings): void {
  for (const [index, text] of asList(listed).entries()) {
    if (typeof text !== 'string') continue;
    const [namespace = '', name = '', ...more] = text.split('/');
    if (more.length === 0 && isDnsLabel(namespace) && isSubdomain(name)) continue;
    found.error(['endpointsWithoutPods', index], `must be a Service as NAMESPACE/NAME, not ${show(text)}`);
  }
}

function checkPath(value: unknown, path: FieldPath, others: string, found: Findings): void {
  if (typeof value !== 'string' || value === '') return;
  if (value.startsWith('/') && !/\p{Cc}/u.test(value)) return;
  found.error(path, `must be a path that starts with "/", ${others}, not ${show(value)}`);
}

/**
 * For `auto` the limits of all dataplanes are checked: a setting that one of them cannot have is
 * reported here, not by the one node that chooses it.
 */
function checkRecordLimits({ dataplane }: FieldMap, log: FieldMap, found: Findings): void {
  for (const [name, limit] of Object.entries(DATAPLANE_LIMITS)) {
    if (limit === null || (dataplane !== name && dataplane !== 'auto')) continue;
    for (const field of ['rate', 'burst']) {
      const value = log[field];
      if (typeof value !== 'number' || value <= limit) continue;
      found.error(
        ['log', field],
        `${value} is more than ${name} can count, ${limit}; set it lower, or dataplane: nftables`,
      );
    }
  }
}

function checkTimes(names: FieldMap, found: Findings): void {
  const { minimumTTL = DEFAULT_CONFIG.names.minimumTTL, maximumTTL = DEFAULT_CONFIG.names.maximumTTL } =
    names;
  if (typeof minimumTTL !== 'number' || typeof maximumTTL !== 'number' || minimumTTL <= maximumTTL) return;
  const [field, message] =
    'minimumTTL' in names
      ? ['minimumTTL', `${minimumTTL} is above maximumTTL, ${maximumTTL}; set it to at most that`]
      : ['maximumTTL', `${maximumTTL} is below minimumTTL, ${minimumTTL}; set it to at least that`];
  found.error(['names', field], message);
}

/** Accepts an address with or without a port. */
function checkServer(text: string, path: FieldPath, found: Findings): void {
  if (isIP(text) > 0 && !text.includes('%')) return;
  const [, v6, v4, port] = /^(?:\[([^\]%]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  if ((isIPv6(v6 ?? '') || isIPv4(v4 ?? '')) && Number(port) <= 65_535) return;
  const form =
    'an address, as in 192.0.2.53 or 2001:db8::53, or one with a port, as in 192.0.2.53:5353 or [2001:db8::53]:5353';
  found.error(path, `must be ${form}, not ${show(text)}`);
}

/** Checks of the configuration for egress gateways that the schema cannot express. */
function checkEgressSettings(raw: FieldMap, found: Findings): void {
  const { inside, serviceCIDRs } = asFields(raw.egress) ?? {};
  checkCidrs(inside, ['egress', 'inside'], found);
  checkCidrs(serviceCIDRs, ['egress', 'serviceCIDRs'], found);
  if (asFields(raw.featureGates)?.EgressGateway === true && raw.dataplane === 'iptables') {
    found.error(['dataplane'], EGRESS_NEEDS_NFTABLES);
  }
}

/** The message for the dataplane that cannot steer packets. */
export const EGRESS_NEEDS_NFTABLES =
  'iptables has no egress gateways; set dataplane: nftables, or turn feature gate EgressGateway off';

/**
 * Checks that a leader has time for another attempt before it must cease, and ceases before another
 * one leads.
 */
export function checkLeaderElection(raw: FieldMap, found: Findings): void {
  const times = { ...DEFAULT_CONFIG.leaderElection, ...raw };
  for (const [shorter, longer] of ORDER) {
    const [short, long] = [times[shorter], times[longer]];
    if (typeof short !== 'number' || typeof long !== 'number' || short < long) continue;
    const message =
      shorter in raw
        ? `${short} must be below ${longer}, which is ${long}`
        : `${long} must be above ${shorter}, which is ${short}`;
    found.error(['leaderElection', shorter in raw ? shorter : longer], message);
  }
}

const ORDER = [
  ['renewDeadline', 'leaseDuration'],
  ['retryPeriod', 'renewDeadline'],
] as const;

/** An entry of the failsafe list as written in the configuration. */
export interface RawFailsafe {
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  readonly port?: number;
  readonly endPort?: number;
  readonly peers: FailsafePeers;
}

/** Checks of an entry that the schema cannot express. */
export function checkFailsafe(raw: unknown, path: FieldPath, found: Findings): void {
  checkPort(raw, path, found);
  const { peers } = asFields(raw) ?? {};
  const at = [...path, 'peers'];
  if (peers === undefined || NAMED_PEERS.some((name) => name === peers)) return;
  if (!Array.isArray(peers)) {
    found.error(at, `must be nodes, controllers, any or a list of CIDRs, not ${show(peers)}`);
    return;
  }
  if (peers.length === 0) found.error(at, 'is empty; it must be nodes, controllers, any or a list of CIDRs');
  for (const [index, peer] of peers.entries()) {
    if (typeof peer === 'string') checkCidr(peer, [...at, index], found);
    else found.error([...at, index], `must be a CIDR, not ${show(peer)}`);
  }
}

/** Converts an entry that passed the checks. */
export function toFailsafe({ protocol = 'TCP', port, endPort, peers }: RawFailsafe): FailsafeEntry {
  return {
    protocol: ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol],
    ports: port === undefined ? [0, 65535] : [port, endPort ?? port],
    peers: typeof peers === 'string' ? peers : peers.map(canonicalCidr),
  };
}

/** The API server, from its load balancers. */
export function fromLoadBalancers(cidrs: readonly string[]): FailsafeEntry[] {
  if (cidrs.length === 0) return [];
  return [{ protocol: 'tcp', ports: [6443, 6443], peers: cidrs.map(canonicalCidr), apiServer: true }];
}
