/** A program of a cluster's network that listens on Nodes, and that other Nodes call. */
interface PlatformProgram {
  readonly program: string;
  readonly protocol: 'tcp' | 'udp';
  /** Inclusive. */
  readonly ports: readonly [first: number, last: number];
  /** A page of its makers about its ports. */
  readonly source: string;
}

const HUBBLE = 'https://docs.cilium.io/en/stable/observability/hubble/setup/';
const CILIUM = 'https://docs.cilium.io/en/stable/operations/system_requirements/#firewall-rules';
const ANTREA = 'https://github.com/antrea-io/antrea/blob/main/docs/network-requirements.md';
const CALICO = 'https://docs.tigera.io/calico/latest/reference/host-endpoints/failsafe';
const RKE2 = 'https://docs.rke2.io/install/requirements#networking';
const KONNECTIVITY = 'https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/';
const METALLB = 'https://metallb.io/#requirements';
const OVN = 'https://github.com/ovn-org/ovn-kubernetes/blob/master/FAQ.md';
const WEAVE = 'https://github.com/weaveworks/weave/blob/master/site/kubernetes/kube-addon.md';
const MICROK8S = 'https://microk8s.io/docs/services-and-ports';

/**
 * Ports by which the parts of a cluster's network talk to each other, beside tunnels, which the
 * kernel tells. A socket that listens at one of them puts it on the failsafe list for addresses of
 * Nodes, whichever program has it: the kernel does not say.
 *
 * Left out are ports that other than Nodes call (kube-proxy's 10256 and NodeLocal DNSCache: load
 * balancers, pods): an entry for Nodes would not keep them open.
 */
export const PLATFORM_PROGRAMS: readonly PlatformProgram[] = [
  { program: "Cilium's health checks", protocol: 'tcp', ports: [4240, 4240], source: CILIUM },
  { program: "Cilium's Hubble server", protocol: 'tcp', ports: [4244, 4244], source: HUBBLE },
  { program: "Cilium's mutual authentication", protocol: 'tcp', ports: [4250, 4250], source: CILIUM },
  { program: "Antrea's controller and agents", protocol: 'tcp', ports: [10349, 10351], source: ANTREA },
  { program: "Antrea's agents", protocol: 'udp', ports: [10351, 10351], source: ANTREA },
  { program: "Calico's Typha", protocol: 'tcp', ports: [5473, 5473], source: CALICO },
  { program: "RKE2's supervisor", protocol: 'tcp', ports: [9345, 9345], source: RKE2 },
  { program: 'konnectivity', protocol: 'tcp', ports: [8132, 8132], source: KONNECTIVITY },
  { program: "MetalLB's speakers", protocol: 'tcp', ports: [7946, 7946], source: METALLB },
  { program: "MetalLB's speakers", protocol: 'udp', ports: [7946, 7946], source: METALLB },
  { program: "OVN's databases", protocol: 'tcp', ports: [6641, 6644], source: OVN },
  { program: 'Weave Net', protocol: 'tcp', ports: [6783, 6783], source: WEAVE },
  { program: 'Weave Net', protocol: 'udp', ports: [6783, 6784], source: WEAVE },
  { program: "MicroK8s' dqlite", protocol: 'tcp', ports: [19001, 19001], source: MICROK8S },
  { program: "MicroK8s' cluster agent", protocol: 'tcp', ports: [25000, 25000], source: MICROK8S },
];
