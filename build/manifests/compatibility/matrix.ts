/**
 * The rows and columns of docs/compatibility.md: suites of the project, and kernels. Those of
 * clusters have versions.ts for columns.
 */

export interface MatrixKernel {
  readonly name: string;
  /** Debian's name of the suite that the kernel is from. */
  readonly debian: string;
  /** Debian's name of the processors. */
  readonly processor: 'amd64' | 'arm64';
  readonly title: string;
}

export const KERNELS: readonly MatrixKernel[] = [
  { name: 'bullseye', debian: 'bullseye', processor: 'amd64', title: 'Debian 11, Linux 5.10' },
  { name: 'bookworm', debian: 'bookworm', processor: 'amd64', title: 'Debian 12, Linux 6.1' },
  { name: 'trixie', debian: 'trixie', processor: 'amd64', title: 'Debian 13, Linux 6.12' },
  { name: 'sid', debian: 'sid', processor: 'amd64', title: 'Debian sid, the newest' },
  { name: 'bookworm-arm64', debian: 'bookworm', processor: 'arm64', title: 'Debian 12 on arm64' },
  { name: 'trixie-arm64', debian: 'trixie', processor: 'arm64', title: 'Debian 13 on arm64' },
];

export interface MatrixSuite {
  readonly name: string;
  /** For the page: what it shows. */
  readonly shows: string;
  /** Arguments of node: a program that ends with 0. Or test files. */
  readonly run: { readonly program: readonly string[] } | { readonly files: readonly string[] };
  /** Whether the variations that `npm test` leaves out run, too (test/kernel/variations.ts). */
  readonly hasVariations?: true;
  /** Minutes of the host until it is ended, with emulation in mind. */
  readonly minutes: number;
}

/** Test files of test/kernel. */
const kernel = (...names: readonly string[]) => ({
  files: names.map((name) => `test/kernel/${name}.test.ts`),
});

export const MATRIX_SUITES: readonly MatrixSuite[] = [
  {
    name: 'demo',
    shows: '`npm run demo`',
    run: { program: ['build/demo/main.ts'] },
    minutes: 20,
  },
  {
    name: 'demo-egress',
    shows: '`npm run demo -- egress`',
    run: { program: ['build/demo/main.ts', 'egress'] },
    minutes: 20,
  },
  {
    name: 'verdicts',
    shows: 'each verdict, protocol, family and direction as it is meant',
    run: kernel('verdicts', 'nft-trial'),
    minutes: 30,
  },
  {
    name: 'dataplanes',
    shows: 'one node with each dataplane: the same verdicts, migration under a flood, cleanup',
    run: kernel('dataplanes'),
    minutes: 60,
  },
  {
    name: 'oracle',
    shows: 'random policies in each dataplane, against the oracle',
    run: kernel('oracle'),
    minutes: 90,
  },
  {
    name: 'nodeport',
    shows: 'NodePorts, host ports and load balancers, by each kind of NAT',
    run: kernel('nodeport'),
    minutes: 90,
  },
  {
    name: 'floods',
    shows: 'rules are replaced and agents restarted under a flood: nothing leaks',
    run: kernel('atomic-swap', 'restart', 'nodeport-flood'),
    minutes: 120,
  },
  {
    name: 'egress',
    shows: 'egress gateways: the way of packets, guards, removal, start',
    run: kernel('egress', 'egress-guard', 'egress-netstate', 'egress-removal', 'egress-start'),
    minutes: 120,
  },
  {
    name: 'egress-tunnel',
    shows: "egress gateways' tunnel, plain and encrypted by WireGuard",
    run: kernel('egress-tunnel', 'egress-wireguard'),
    minutes: 60,
  },
  {
    name: 'floating',
    shows: 'floating addresses of egress gateways',
    run: kernel('floating'),
    minutes: 60,
  },
  {
    name: 'boot',
    shows: 'files of rules for the next boot',
    run: kernel('boot', 'first-process'),
    minutes: 30,
  },
  {
    name: 'nft',
    shows:
      'nft 0.9.8, 1.0.6, 1.1.3 and the newest of Debian read our table and load files for a boot; both hold',
    run: { files: ['test/kernel/nft-versions.long.ts'] },
    minutes: 120,
  },
  {
    name: 'drift',
    shows: 'foreign changes are undone',
    run: kernel('drift', 'drift-iptables'),
    minutes: 60,
  },
  {
    name: 'guard',
    shows: 'changes that cut the node off are rolled back',
    run: kernel('guard', 'guard-deadline'),
    minutes: 90,
  },
  {
    name: 'links',
    shows:
      'VXLAN, Geneve, WireGuard, IPIP, GRE, IPsec, VLAN, macvlan, ipvlan, bonds, VRFs and Open vSwitch; SCTP; IPVS',
    run: kernel('link-kinds', 'platform', 'vrf', 'open-vswitch', 'sctp', 'ipvs'),
    minutes: 60,
  },
  {
    name: 'others',
    shows: "rules of other programs beside nodewall's: both hold; flowtables and queues",
    run: kernel('footprints', 'flowtables', 'queues'),
    hasVariations: true,
    minutes: 150,
  },
  {
    name: 'addon',
    shows: 'the addon for netlink, and the ipset command',
    run: {
      files: ['agent/nftables-napi/test/**/*.test.ts', 'agent/ipset-ts/test/**/*.test.ts'],
    },
    minutes: 120,
  },
];

/** Suites that run in a real cluster, with each combination of versions. */
export const CLUSTER_SUITES: readonly (Pick<MatrixSuite, 'name' | 'shows' | 'minutes'> & {
  readonly file: string;
})[] = [
  {
    name: 'stories',
    shows: 'losses of power, outages, lock-outs, floods, recovery, removal, in a cluster of three nodes',
    file: 'test/realcluster/stories.test.ts',
    minutes: 90,
  },
];
