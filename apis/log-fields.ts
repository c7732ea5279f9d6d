/** Keys of nodewall's own log, beside time, level and message, that may leave the cluster. */
export const LOG_FIELDS = {
  /** Their values are identifiers. */
  identifiers: new Set([
    ...['node', 'stage', 'policy', 'rule', 'revision', 'apiGroup', 'kind', 'resource', 'tier'],
    ...['version', 'dataplane', 'leader', 'identity', 'interface', 'group', 'gatewayNode'],
  ]),
  /** Their values may be text that others wrote. */
  texts: new Set([
    ...['name', 'error', 'reason', 'why', 'problem', 'warning', 'cause', 'code', 'hint', 'advice'],
    ...['server', 'controller', 'listen', 'host', 'port', 'milliseconds', 'took', 'rules', 'objects'],
    ...['count', 'policies', 'chains', 'sets', 'lost', 'kept', 'interfaces', 'gates', 'enabled'],
    ...['probes', 'probe', 'gateway', 'path', 'event', 'action', 'ignored', 'skipped', 'removed'],
    ...['others', 'minute', 'monitor'],
  ]),
} as const;
