/**
 * Flags and files of the programs of a cluster, as an installer of clusters (kubeadm) sets them,
 * less what needs a real machine's kernel.
 */
import type { Keys } from './keys.ts';
import { CONTROL_NODE, type NodeAddresses } from './network.ts';
import type { ServiceProxy } from './pod-network.ts';

export const SERVICE_CIDRS = '10.96.0.0/16,fd00:96::/112';
export const KUBERNETES_SERVICE = '10.96.0.1';
const DNS_SERVICE = '10.96.0.10';
export const POD_CIDRS = '10.244.0.0/16,fd00:10:244::/48';

export function apiServerFlags({ path }: Keys, address: string, proxy: ServiceProxy): string[] {
  const settings = {
    // Calls of webhooks and aggregated APIs go to endpoints: no Service has an address here.
    ...(proxy === 'none' ? { 'enable-aggregator-routing': 'true' } : {}),
    'etcd-servers': 'http://127.0.0.1:2379',
    'secure-port': '6443',
    'advertise-address': address,
    'service-cluster-ip-range': SERVICE_CIDRS,
    'allow-privileged': 'true',
    'authorization-mode': 'Node,RBAC',
    'enable-admission-plugins': 'NodeRestriction',
    'tls-cert-file': path('apiserver.crt'),
    'tls-private-key-file': path('apiserver.key'),
    'client-ca-file': path('ca.crt'),
    'kubelet-client-certificate': path('apiserver-kubelet-client.crt'),
    'kubelet-client-key': path('apiserver-kubelet-client.key'),
    'kubelet-certificate-authority': path('ca.crt'),
    'kubelet-preferred-address-types': 'InternalIP,Hostname',
    'service-account-issuer': 'https://kubernetes.default.svc.cluster.local',
    'service-account-key-file': path('service-account.pub'),
    'service-account-signing-key-file': path('service-account.key'),
    'token-auth-file': path('tokens.csv'),
    'requestheader-client-ca-file': path('front-proxy-ca.crt'),
    'requestheader-allowed-names': 'front-proxy-client',
    'requestheader-username-headers': 'X-Remote-User',
    'requestheader-group-headers': 'X-Remote-Group',
    'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
    'proxy-client-cert-file': path('front-proxy-client.crt'),
    'proxy-client-key-file': path('front-proxy-client.key'),
    'shutdown-delay-duration': '0s',
  };
  return toFlags(settings);
}

export function controllerManagerFlags({ path, kubeconfig }: Keys): string[] {
  return toFlags({
    ...clientSettings(kubeconfig('controller-manager')),
    'service-account-private-key-file': path('service-account.key'),
    'root-ca-file': path('ca.crt'),
    'cluster-signing-cert-file': path('ca.crt'),
    'cluster-signing-key-file': path('ca.key'),
    'use-service-account-credentials': 'true',
    'cluster-cidr': POD_CIDRS,
    'service-cluster-ip-range': SERVICE_CIDRS,
    'allocate-node-cidrs': 'false',
    // Nodes that are lost are seen 30 s sooner than by default: until then a namespace's deletion
    // fails, and is tried less and less often.
    'node-monitor-grace-period': '18s',
    'node-monitor-period': '1s',
  });
}

export function schedulerFlags({ kubeconfig }: Keys): string[] {
  return toFlags(clientSettings(kubeconfig('scheduler')));
}

function clientSettings(kubeconfig: string): Record<string, string> {
  return {
    kubeconfig,
    'authentication-kubeconfig': kubeconfig,
    'authorization-kubeconfig': kubeconfig,
    'leader-elect': 'false',
    'bind-address': '127.0.0.1',
  };
}

interface KubeletParts {
  readonly node: NodeAddresses;
  readonly keys: Keys;
  readonly group: string;
  /** Folder of the node's files. */
  readonly data: string;
  readonly proxy: ServiceProxy;
}

/** kubelet.config.k8s.io/v1beta1. */
export function kubeletConfiguration({ node, keys, group, data, proxy }: KubeletParts): object {
  const isControlPlane = node.name === CONTROL_NODE.name;
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    failCgroupV1: false,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${group}/${node.name}`,
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: keys.path('ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: keys.path(`kubelet-${node.name}.crt`),
    tlsPrivateKeyFile: keys.path(`kubelet-${node.name}.key`),
    clusterDNS: [proxy === 'none' ? CONTROL_NODE.v4 : DNS_SERVICE],
    clusterDomain: 'cluster.local',
    resolvConf: `${data}/resolv.conf`,
    volumePluginDir: `${data}/volume-plugins`,
    // Renewed every 5 s: three fall into the controller manager's grace period.
    nodeLeaseDurationSeconds: 20,
    failSwapOn: false,
    // The machine's disk is others' too.
    evictionHard: {
      'memory.available': '0%',
      'nodefs.available': '0%',
      'nodefs.inodesFree': '0%',
      'imagefs.available': '0%',
    },
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    registerWithTaints: isControlPlane
      ? [{ key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }]
      : [],
  };
}

/** kubeproxy.config.k8s.io/v1alpha1. */
export function kubeProxyConfiguration(
  node: string,
  mode: Exclude<ServiceProxy, 'none'>,
  kubeconfig: string,
): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    hostnameOverride: node,
    clientConnection: { kubeconfig },
    clusterCIDR: POD_CIDRS,
    // The machine's own, not this namespace's: left as they are.
    oomScoreAdj: 0,
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}

export const PAUSE_IMAGE = 'registry.k8s.io/pause:3.6';

/** A node's folder of CNI plugins. */
export const CNI_PLUGINS = '/opt/cni/bin';

function toFlags(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
}
