import { asFields } from '../../apis/schema/json-schema.ts';
import { type CheckLine, firstNames, isAtLeast, ok, problem, warning } from '../../lib/process/check-line.ts';
import { type KubeApi, listObjects } from '../kubeapi/kube-api.ts';
import { type CheckedObject, readObject, type SingleCheck } from './checked.ts';

/** The README requires it. */
const LEAST_KUBERNETES = [1, 32] as const;
const LEAST_KERNEL = [5, 9] as const;
const ARCHITECTURES = ['amd64', 'arm64'];
const MOST_NODES = 15_000;

/** Checks before nodewall is installed, and after. */
export const BEFORE_CHECKS: Readonly<Record<string, SingleCheck>> = {
  'API server': apiServer,
  aggregation,
  nodes,
  'service proxy': serviceProxy,
  'other firewalls': otherFirewalls,
  'pod security': podSecurity,
};

async function apiServer(request: KubeApi): Promise<readonly CheckLine[]> {
  const { gitVersion = '' } = await request<{ gitVersion?: string }>({ method: 'GET', path: '/version' });
  const [major, minor] = LEAST_KUBERNETES;
  if (isAtLeast(gitVersion, major, minor)) return [ok('API server', `Kubernetes ${gitVersion}`)];
  return [
    problem(
      'API server',
      `Kubernetes ${gitVersion} is older than ${major}.${minor}: the tokens of agents name no node, and controllers refuse them`,
      'upgrade Kubernetes first',
    ),
  ];
}

/** Without the front proxy's CA nobody can be believed who comes by the aggregated API. */
async function aggregation(request: KubeApi): Promise<readonly CheckLine[]> {
  const path = '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication';
  const map = await readObject(request, path);
  if (map?.data?.['requestheader-client-ca-file'] !== undefined)
    return [ok('aggregation', 'the API server can pass requests on, with the name of the user')];
  return [
    problem(
      'aggregation',
      'the API server has no --requestheader-client-ca-file: nodewall status, explain and kubectl get nodeviews will not work',
      'enable the aggregation layer of the API server (kubeadm and managed clusters have it)',
    ),
  ];
}

async function nodes(request: KubeApi): Promise<readonly CheckLine[]> {
  const { objects } = await listObjects(request, { path: '/api/v1/nodes' }, MOST_NODES);
  const found = objects.map(({ metadata, status }) => {
    const info = asFields(asFields(status)?.nodeInfo) ?? {};
    const [kernel, system, architecture] = [info.kernelVersion, info.operatingSystem, info.architecture];
    return { name: String(metadata?.name), kernel: String(kernel ?? ''), system, architecture };
  });
  // Agents run on Linux only.
  const linux = found.filter(({ system }) => system === 'linux');
  const old = linux.filter(({ kernel }) => !isAtLeast(kernel, ...LEAST_KERNEL));
  const foreign = linux.filter(({ architecture }) => !ARCHITECTURES.includes(String(architecture)));
  const lines: CheckLine[] = [];
  if (old.length > 0)
    lines.push(
      problem(
        'nodes',
        `Linux before ${LEAST_KERNEL.join('.')}: ${firstNames(old.map(({ name, kernel }) => `${name} (${kernel})`))}`,
        'upgrade the kernel, or keep agents away from these nodes',
      ),
    );
  if (foreign.length > 0)
    lines.push(
      problem(
        'nodes',
        `no image for: ${firstNames(foreign.map((one) => `${one.name} (${one.architecture})`))}`,
        'build an image for them',
      ),
    );
  if (lines.length > 0) return lines;
  if (linux.length === 0)
    return [warning('nodes', 'no Node says that it runs Linux', 'look at kubectl get nodes -o wide')];
  return [ok('nodes', `${linux.length} with Linux ${LEAST_KERNEL.join('.')} or later`)];
}

/** docs/nodeport.md, limits. */
async function serviceProxy(request: KubeApi): Promise<readonly CheckLine[]> {
  const [proxy, cilium, felix] = await Promise.all([
    readObject(request, '/api/v1/namespaces/kube-system/configmaps/kube-proxy'),
    readObject(request, '/api/v1/namespaces/kube-system/configmaps/cilium-config'),
    readObject(request, '/apis/crd.projectcalico.org/v1/felixconfigurations/default'),
  ]);
  const replaced = /^(?:true|strict)$/.test(cilium?.data?.['kube-proxy-replacement'] ?? '');
  const nothing = "NodePort policies close nothing there; use that system's own policies for NodePorts";
  if (replaced)
    return [warning('service proxy', 'Cilium replaces kube-proxy by eBPF (kube-proxy-replacement)', nothing)];
  if (felix?.spec?.bpfEnabled === true)
    return [warning('service proxy', "Calico's eBPF mode is on (FelixConfiguration bpfEnabled)", nothing)];
  const mode = /^[ \t]*mode:[ \t]*["']?(\w*)/m.exec(proxy?.data?.['config.conf'] ?? '')?.[1];
  if (mode === 'ipvs')
    return [
      warning(
        'service proxy',
        'kube-proxy runs in IPVS mode, whose NAT netfilter does not see',
        'NodePort policies match nothing there; use the mode nftables or iptables',
      ),
    ];
  if (mode === undefined)
    return [
      ok(
        'service proxy',
        'nothing is known that replaces kube-proxy; its mode is not in ConfigMap kube-proxy',
      ),
    ];
  return [ok('service proxy', `kube-proxy in mode ${mode === '' ? 'iptables (the default)' : mode}`)];
}

/** Packets that they drop, too, are dropped. docs/platforms.md, docs/coming-from.md. */
async function otherFirewalls(request: KubeApi): Promise<readonly CheckLine[]> {
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const [cilium, endpoints, operator] = await Promise.all([
    readObject(request, '/api/v1/namespaces/kube-system/configmaps/cilium-config'),
    readObject<{ readonly items?: readonly CheckedObject[] }>(
      request,
      '/apis/crd.projectcalico.org/v1/hostendpoints',
    ),
    readObject(request, `${definitions}/ingressnodefirewalls.ingressnodefirewall.openshift.io`),
  ]);
  const found = [
    cilium?.data?.['enable-host-firewall'] === 'true' ? "Cilium's host firewall" : null,
    (endpoints?.items ?? []).length > 0 ? "Calico's HostEndpoints" : null,
    operator !== null ? 'the Ingress Node Firewall Operator' : null,
  ].filter((one) => one !== null);
  if (found.length === 0) return [ok('other firewalls', 'none known for nodes')];
  return [
    warning(
      'other firewalls',
      `${found.join(', ')}: what either of them drops is dropped`,
      'let one of them judge the traffic of the nodes, or allow in both what must pass',
    ),
  ];
}

/** docs/platforms.md. */
async function podSecurity(request: KubeApi): Promise<readonly CheckLine[]> {
  const namespace = await readObject(request, '/api/v1/namespaces/nodewall-system');
  if (namespace === null)
    return [ok('pod security', 'kustomize makes namespace nodewall-system with level privileged')];
  const level = namespace.metadata?.labels?.['pod-security.kubernetes.io/enforce'];
  if (level === 'privileged') return [ok('pod security', 'namespace nodewall-system has level privileged')];
  const next =
    'kubectl label namespace nodewall-system pod-security.kubernetes.io/enforce=privileged --overwrite';
  if (level === undefined)
    return [
      warning(
        'pod security',
        'namespace nodewall-system has no level of its own, and clusters may enforce one',
        next,
      ),
    ];
  return [problem('pod security', `namespace nodewall-system enforces ${level}: agents cannot start`, next)];
}
