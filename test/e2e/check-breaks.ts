import type { CheckLine } from '../../lib/process/check-line.ts';
import type { Story } from './story-bed.ts';

/** One thing that `nodewall check` must find, while controllers run. */
export interface Break {
  readonly what: string;
  /** The line that says it. */
  readonly check: string;
  readonly state: CheckLine['state'];
  readonly message: RegExp;
  break(story: Story): Promise<unknown>;
  repair(story: Story): Promise<unknown>;
}

const SYSTEM = '--namespace=nodewall-system';
const KUBE_SYSTEM = '--namespace=kube-system';
const WEBHOOK = 'validatingwebhookconfiguration/nodewall';

const patched = (object: readonly string[], patch: unknown): ((story: Story) => Promise<unknown>) => {
  const type = Array.isArray(patch) ? 'json' : 'merge';
  return ({ kubectl }) => kubectl('patch', ...object, `--type=${type}`, '-p', JSON.stringify(patch));
};
const configMap =
  (name: string, data: Readonly<Record<string, string>>, namespace = 'kube-system') =>
  ({ applied }: Story) =>
    applied({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data });
const removed =
  (...object: readonly string[]) =>
  ({ kubectl }: Story) =>
    kubectl('delete', ...object, '--wait=false');
const kernelOf =
  (kernelVersion: string) =>
  ({ cluster }: Story) =>
    cluster.patchStatus(['node/worker-1'], {
      nodeInfo: { kernelVersion, operatingSystem: 'linux', architecture: 'amd64' },
    });
const failurePolicy = (value: string) =>
  patched([WEBHOOK], [{ op: 'replace', path: '/webhooks/0/failurePolicy', value }]);

/** Those of a list are broken at the same time: each says something on a line of its own. */
export const BREAKS: readonly (readonly Break[])[] = [
  [
    {
      what: 'a kernel that is too old',
      check: 'nodes',
      state: 'problem',
      message: /worker-1 \(4\.19\.0\)/,
      break: kernelOf('4.19.0'),
      repair: kernelOf('6.1.0'),
    },
    {
      what: 'kube-proxy in IPVS mode',
      check: 'service proxy',
      state: 'warning',
      message: /IPVS/,
      break: configMap('kube-proxy', { 'config.conf': 'kind: KubeProxyConfiguration\nmode: "ipvs"\n' }),
      repair: removed('configmap/kube-proxy', KUBE_SYSTEM),
    },
    {
      what: 'another host firewall',
      check: 'other firewalls',
      state: 'warning',
      message: /Cilium's host firewall/,
      break: configMap('cilium-config', { 'enable-host-firewall': 'true' }),
      repair: removed('configmap/cilium-config', KUBE_SYSTEM),
    },
    {
      what: 'a namespace where agents cannot start',
      check: 'pod security',
      state: 'problem',
      message: /enforces baseline/,
      break: patched(['namespace/nodewall-system'], {
        metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } },
      }),
      repair: patched(['namespace/nodewall-system'], {
        metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
      }),
    },
    {
      what: 'a definition of another version',
      check: 'definitions',
      state: 'problem',
      message: /of another version: tiers\.nodewall\.io/,
      break: patched(
        ['crd/tiers.nodewall.io'],
        [
          {
            op: 'add',
            path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/other',
            value: { type: 'string' },
          },
        ],
      ),
      repair: patched(
        ['crd/tiers.nodewall.io'],
        [{ op: 'remove', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/other' }],
      ),
    },
    {
      what: 'a failurePolicy that was changed in one place',
      check: 'webhooks',
      state: 'warning',
      message: /not as installed: .*validate\.nodewall\.io Fail/,
      break: failurePolicy('Fail'),
      repair: failurePolicy('Ignore'),
    },
    {
      what: 'agents that do not start',
      check: 'pods',
      state: 'problem',
      message: /DaemonSet nodewall-agent: 0 of 0 ready/,
      break: ({ applied }) =>
        applied({
          apiVersion: 'apps/v1',
          kind: 'DaemonSet',
          metadata: { name: 'nodewall-agent', namespace: 'nodewall-system' },
          spec: {
            selector: { matchLabels: { a: 'b' } },
            template: {
              metadata: { labels: { a: 'b' } },
              spec: { containers: [{ name: 'agent', image: 'i' }] },
            },
          },
        }),
      repair: removed('daemonset/nodewall-agent', SYSTEM),
    },
    {
      what: 'a node that is off',
      check: 'agents',
      state: 'problem',
      message: /nothing is enforced \(nodewall off\) on worker-1/,
      break: async ({ agents }) => await agents['worker-1']?.run('off'),
      repair: async ({ agents }) => await agents['worker-1']?.run('on'),
    },
    {
      what: 'a table of others that drops',
      check: 'other tables',
      state: 'warning',
      message: /worker-1 \(inet others in\)/,
      break: ({ machine }) =>
        machine('worker-1').namespace.run(['nft', '-f', '-'], {
          stdin:
            'table inet others { chain in { type filter hook input priority 10; policy drop; accept; }; }\n',
        }),
      repair: ({ machine }) =>
        machine('worker-1').namespace.run(['nft', 'delete', 'table', 'inet', 'others']),
    },
  ],
  [
    {
      what: 'Cilium in place of kube-proxy',
      check: 'service proxy',
      state: 'warning',
      message: /Cilium replaces/,
      break: configMap('cilium-config', { 'kube-proxy-replacement': 'true' }),
      repair: removed('configmap/cilium-config', KUBE_SYSTEM),
    },
    {
      what: 'a feature gate that nothing sets',
      check: 'feature gate',
      state: 'warning',
      message: /does not set it/,
      break: configMap('nodewall-config', { 'config.yaml': '' }, 'nodewall-system'),
      repair: ({ setGate }) => setGate(true),
    },
  ],
];
