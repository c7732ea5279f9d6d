/**
 * The names of the interfaces that CNIs create on the node. Traffic between the node and its own
 * pods passes `pods`, pods' traffic between nodes `clusternet`. An interface for both (an Open
 * vSwitch or eBPF gateway) is in `pods`, since the kubelet's probes need that.
 *
 * A row applies only to links of its kinds (IFLA_INFO_KIND). Hardware has no kind, so a name alone
 * never makes it a pod's interface.
 */
export interface Preset {
  readonly cni: string;
  readonly group: 'pods' | 'clusternet';
  readonly names: readonly string[];
  readonly kinds: readonly string[];
}

/** Kinds of pairs with one end in the pod: veth, and netkit of Cilium's datapath (Linux 6.7). */
export const PAIR_KINDS: readonly string[] = ['veth', 'netkit'];

/** All rows, each with its source in the CNI's code or documentation. */
export const PRESETS: readonly Preset[] = [
  // felix/dataplane/linux/dataplanedefs, libcalico-go/…/conversion (interface prefix), felix
  // wireguard defaults.
  { cni: 'calico', group: 'pods', names: ['cali*'], kinds: ['veth'] },
  {
    cni: 'calico',
    group: 'clusternet',
    names: ['tunl0', 'vxlan.calico', 'vxlan-v6.calico', 'wireguard.cali', 'wg-v6.cali'],
    kinds: ['ipip', 'vxlan', 'wireguard'],
  },
  // flannel's CNI plugin delegates to bridge, cni0 by default; pkg/backend/{vxlan,wireguard,ipip}:
  // flannel.VNI, flannel-v6.VNI, flannel-wg, flannel-wg-v6, flannel.ipip.
  { cni: 'flannel', group: 'pods', names: ['cni0'], kinds: ['bridge'] },
  {
    cni: 'flannel',
    group: 'clusternet',
    names: ['flannel.*', 'flannel-v6.*', 'flannel-wg', 'flannel-wg-v6'],
    kinds: ['vxlan', 'wireguard', 'ipip', 'tun'],
  },
  // pkg/defaults/node.go. The node's routes to all pods, its own included, go through cilium_host.
  // The kinds exclude lxcbr0, a bridge of LXC.
  { cni: 'cilium', group: 'pods', names: ['lxc*', 'cilium_host', 'cilium_net'], kinds: PAIR_KINDS },
  {
    cni: 'cilium',
    group: 'clusternet',
    names: ['cilium_vxlan', 'cilium_geneve', 'cilium_wg0', 'cilium_ipip4', 'cilium_ipip6', 'cilium_tunl'],
    kinds: ['vxlan', 'geneve', 'wireguard', 'ipip', 'ip6tnl'],
  },
  // pkg/agent/agent.go (defaultTunInterfaceName), pkg/agent/wireguard. Open vSwitch names the
  // tunnels' kernel devices genev_sys_PORT and vxlan_sys_PORT.
  { cni: 'antrea', group: 'pods', names: ['antrea-gw0'], kinds: ['openvswitch'] },
  {
    cni: 'antrea',
    group: 'clusternet',
    names: ['antrea-tun0', 'antrea-wg0', 'genev_sys_*', 'vxlan_sys_*'],
    kinds: ['openvswitch', 'wireguard', 'geneve', 'vxlan'],
  },
  // go-controller/pkg/types (K8sMgmtIntfName): the node's port in the logical network, to pods on
  // this node and others.
  { cni: 'ovn-kubernetes', group: 'pods', names: ['ovn-k8s-mp*'], kinds: ['openvswitch'] },
  { cni: 'ovn-kubernetes', group: 'clusternet', names: ['genev_sys_*'], kinds: ['geneve'] },
  // daemonset/*.yaml ("bridge":"kube-bridge"); pkg/tunnels: tun-ADDRESS, IPIP or FoU. A VPN's tun
  // device has another kind.
  { cni: 'kube-router', group: 'pods', names: ['kube-bridge'], kinds: ['bridge'] },
  { cni: 'kube-router', group: 'clusternet', names: ['tun-*'], kinds: ['ipip', 'ip6tnl', 'sit'] },
  // `weave report`: pods are ports of the bridge weave as vethweplHASH.
  { cni: 'weave', group: 'pods', names: ['weave', 'vethwepl*'], kinds: ['bridge', 'veth'] },
  { cni: 'weave', group: 'clusternet', names: ['vxlan-6784'], kinds: ['vxlan'] },
  // AWS_VPC_K8S_CNI_VETHPREFIX; hardware ENIs on the node are ethN or ensN, without a kind.
  { cni: 'aws', group: 'pods', names: ['eni*'], kinds: ['veth'] },
  // azure-container-networking, network/endpoint_linux.go: "az" + "v" + hash.
  { cni: 'azure', group: 'pods', names: ['azv*'], kinds: ['veth'] },
  // GKE sets Calico's interfacePrefix to gke.
  { cni: 'gke', group: 'pods', names: ['gke*'], kinds: ['veth'] },
  // Oracle's OKE: FELIX_INTERFACEPREFIX=oci.
  { cni: 'oke', group: 'pods', names: ['oci*'], kinds: ['veth'] },
  // kubelet's old kubenet, and the bridge plugin in many examples. kindnet and ptp need no row:
  // kind:veth matches them.
  { cni: 'kubenet', group: 'pods', names: ['cbr0'], kinds: ['bridge'] },
  // pkg/minikube/cni/bridge.go.
  { cni: 'minikube', group: 'pods', names: ['bridge'], kinds: ['bridge'] },
  // No CNIs: the bridges of containers that Docker and Podman start. Their other networks have
  // bridges whose names could be anybody's.
  { cni: 'docker', group: 'pods', names: ['docker0'], kinds: ['bridge'] },
  { cni: 'podman', group: 'pods', names: ['podman0', 'cni-podman0'], kinds: ['bridge'] },
];

/** The valid names in `cni:NAME`, sorted. */
export const CNIS: readonly string[] = [...new Set(PRESETS.map(({ cni }) => cni))].sort();
