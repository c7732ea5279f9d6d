import { isIP, isIPv4, isIPv6 } from 'node:net';
import { DEFAULT_CONFIG } from '../config.ts';
import { DATAPLANE_LIMITS } from '../dataplanes.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { checkEgressSettings } from './egress-settings.ts';
import { checkCidrs } from './ipblock.ts';
import { isDnsLabel, isSubdomain } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/**
 * Checks of interfaceGroupFile, masquerade, nodeCIDRs, names and log that the schema cannot
 * express.
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
