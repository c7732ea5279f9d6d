import { type KnownFields, plainFields as plain } from '../lib/sharing/safe-text.ts';
import type { Config } from './config.ts';

const FAILSAFE: KnownFields = [{ protocol: 'plain', ports: 'whole', peers: 'whole', apiServer: 'plain' }];

/**
 * The settings of a configuration that may be shown to maintainers. URLs of probes are none of
 * them: they can hold a password.
 */
export const CONFIG_FIELDS = {
  exemptions: { each: 'plain' },
  antiSpoofing: 'plain',
  interfaceGroups: { each: 'plain' },
  interfaceMatches: { each: ['plain'] },
  interfaceGroupFile: 'plain',
  masquerade: { enabled: 'plain', except: ['plain'] },
  names: {
    servers: ['plain'],
    ...plain('minimumTTL', 'maximumTTL', 'keep', 'stale', 'learn'),
    learnFrom: ['plain'],
    group: 'plain',
  },
  log: plain('file', 'maxBytes', 'maxFiles', 'rate', 'burst', 'group', 'egressConnections'),
  flowInventory: { enabled: 'plain' },
  failsafe: { ingress: FAILSAFE, egress: FAILSAFE },
  sparesPlatform: 'plain',
  kubeletKubeconfig: 'plain',
  nodeCIDRs: ['plain'],
  endpointsWithoutPods: ['plain'],
  featureGates: plain('NodeNetworkPolicy', 'EgressGateway'),
  egress: {
    inside: ['plain'],
    serviceCIDRs: ['plain'],
    podCIDRs: ['plain'],
    unknownPods: 'plain',
    namespaceLimits: plain('policies', 'networks'),
    ...plain('encryption', 'cniResults', 'cniPlugins'),
  },
  guard: {
    ...plain('enabled', 'window', 'failAfter', 'confirm', 'timeout'),
    probes: [{ name: 'plain', target: plain('kind', 'address', 'port') }],
    inward: [{ name: 'plain', from: 'plain', family: 'plain', target: plain('kind', 'port') }],
  },
  dataplane: 'plain',
  iptables: { variant: 'plain' },
  dispatch: 'plain',
  rollout: 'whole',
  antreaStatus: 'plain',
  startupTaint: 'plain',
  boot: { enabled: 'plain', onError: 'plain', ssh: ['plain'] },
  controllerPorts: plain('agents', 'webhook'),
  leaderElection: plain('leaseDuration', 'renewDeadline', 'retryPeriod'),
} as const satisfies Record<keyof Config, KnownFields>;

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
