import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from './config.ts';
import { parseConfig } from './config-file.ts';
import { formatProblem } from './validate/problem.ts';

const lines = (text: string): string[] => parseConfig(text, 'c.yaml').problems.map(formatProblem);

const MATCH_FORM =
  'an interface name of 1 to 15 characters (letters, digits, ".", "_", "@", "+" and "-") with the wildcards "*" and "?", kind:veth, kind:bridge, or cni:NAME';
const SERVER_FORM =
  'an address, as in 192.0.2.53 or 2001:db8::53, or one with a port, as in 192.0.2.53:5353 or [2001:db8::53]:5353';

const NODE_AND_PORT =
  "must be node and a port, as in node:22 (node4 or node6 for the Node's first address of that family)";

describe('parseConfig', () => {
  it('reads an empty file as the defaults', () => {
    for (const text of ['', '# nothing\n', '{}']) {
      assert.deepEqual(parseConfig(text, 'c.yaml'), { config: DEFAULT_CONFIG, problems: [] });
    }
  });

  it('sets the given values and keeps other defaults', () => {
    const { config, problems } = parseConfig(
      `exemptions: {localPods: false}
antiSpoofing: false
interfaceGroups: {lan: 5, wan: {group: 6, match: ['eth*', 'kind:veth', 'cni:cilium']}, pods: 7, clusternet: {group: 3, match: []}}
interfaceGroupFile: ''
masquerade: {enabled: true, except: [10.1.0.0/16, 2001:DB8::/32]}
names: {servers: [192.0.2.53, '192.0.2.53:5353', '2001:db8::53', '[2001:db8::53]:5353'], minimumTTL: 10, learn: false, group: 1}
log: {file: stdout, rate: 0, maxBytes: 65536}
flowInventory: {enabled: false}
failsafe:
  ingress:
    - {protocol: TCP, port: 22, peers: [192.0.2.0/24, 2001:db8::/32]}
    - {protocol: UDP, port: 100, endPort: 200, peers: any}
    - {peers: nodes}
  loadBalancers: [10.9.0.0/24]
  kubeletKubeconfig: /etc/k.conf
  platform: false
nodeCIDRs: [10.0.0.0/16, 2001:DB8::/32]
endpointsWithoutPods: [shop/db]
featureGates: {NodeNetworkPolicy: false, EgressGateway: false}
guard: {confirm: Manual, timeout: 60}
egress: {inside: [10.9.0.0/16], serviceCIDRs: [2001:DB8:1::/112], unknownPods: Pass, encryption: WireGuard, cniResults: /run/cni/results, namespaceLimits: {networks: 50}}
dataplane: iptables
iptables: {variant: legacy}
dispatch: linear
rollout: {steps: [1, 10%], maxFailures: 2}
antreaStatus: false
startupTaint: nodewall.io/agent-not-ready
boot: {onError: open, ssh: [2001:DB8:2::/48]}
leaderElection: {leaseDuration: 60}
controllerPorts: {agents: 10250, webhook: 10250}
`,
      'c.yaml',
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(config, {
      exemptions: { ...DEFAULT_CONFIG.exemptions, localPods: false },
      antiSpoofing: false,
      interfaceGroups: { pods: 7, clusternet: 3, lan: 5, wan: 6 },
      interfaceMatches: {
        pods: DEFAULT_CONFIG.interfaceMatches.pods,
        clusternet: [],
        lan: [],
        wan: ['eth*', 'kind:veth', 'cni:cilium'],
      },
      interfaceGroupFile: '',
      masquerade: { enabled: true, except: ['10.1.0.0/16', '2001:db8::/32'] },
      names: {
        ...DEFAULT_CONFIG.names,
        servers: ['192.0.2.53', '192.0.2.53:5353', '2001:db8::53', '[2001:db8::53]:5353'],
        minimumTTL: 10,
        learn: false,
        group: 1,
      },
      flowInventory: { enabled: false },
      log: { ...DEFAULT_CONFIG.log, file: 'stdout', rate: 0, maxBytes: 65536 },
      failsafe: {
        ingress: [
          { protocol: 'tcp', ports: [22, 22], peers: ['192.0.2.0/24', '2001:db8::/32'] },
          { protocol: 'udp', ports: [100, 200], peers: 'any' },
          { protocol: 'tcp', ports: [0, 65535], peers: 'nodes' },
          { protocol: 'tcp', ports: [6443, 6443], peers: ['10.9.0.0/24'], apiServer: true },
        ],
        egress: DEFAULT_CONFIG.failsafe.egress.flatMap((entry) => {
          if (entry.peers !== 'controllers') return entry;
          return entry.ports[0] === 8443 ? { ...entry, ports: [10250, 10250] } : [];
        }),
      },
      kubeletKubeconfig: '/etc/k.conf',
      sparesPlatform: false,
      nodeCIDRs: ['10.0.0.0/16', '2001:db8::/32'],
      endpointsWithoutPods: ['shop/db'],
      featureGates: { NodeNetworkPolicy: false, EgressGateway: false },
      egress: {
        inside: ['10.9.0.0/16'],
        serviceCIDRs: ['2001:db8:1::/112'],
        unknownPods: 'Pass',
        podCIDRs: [],
        namespaceLimits: { policies: 100, networks: 50 },
        encryption: 'WireGuard',
        cniResults: '/run/cni/results',
        cniPlugins: '',
      },
      guard: { window: 10, failAfter: 15, probes: [], inward: [], confirm: 'Manual', timeout: 60 },
      dataplane: 'iptables',
      iptables: { variant: 'legacy' },
      dispatch: 'linear',
      rollout: { steps: [1, '10%'], pause: 60, maxFailures: 2 },
      antreaStatus: false,
      startupTaint: 'nodewall.io/agent-not-ready',
      boot: { enabled: true, onError: 'open', ssh: ['2001:db8:2::/48'] },
      controllerPorts: { agents: 10250, webhook: 10250 },
      leaderElection: { leaseDuration: 60, renewDeadline: 10, retryPeriod: 2 },
    });
  });

  it('turns one direction of the failsafe off with an empty list', () => {
    const { config } = parseConfig('failsafe: {egress: []}', 'c.yaml');
    assert.deepEqual(config?.failsafe, { ingress: DEFAULT_CONFIG.failsafe.ingress, egress: [] });
  });

  it('names every problem, with its line', () => {
    assert.deepEqual(
      lines(`exemptions: {dhcp: true, loopback: yes}
interfaceGroups:
  lan: five
  wan: {match: eth0}
  "1x": {group: -1, grp: 2}
failsafe:
  ingres: []
  egress:
    - {port: 0, peers: any}
    - {port: 5, endPort: 4, peers: everyone}
    - {protocol: icmp, peers: [10.0.0.1, 5]}
    - {port: 1}
    - {peers: []}
featureGate: {}
featureGates: {AllAlpha: true}
dataplane: ebpf
iptables: {variant: fast, path: /sbin}
dispatch: fast
`),
      [
        'c.yaml:1: exemptions.dhcp: unknown field; known here: loopback, neighborDiscovery, multicastListener, dhcpClient, localPods, egressTunnel',
        'c.yaml:1: exemptions.loopback: must be true or false, not "yes"',
        'c.yaml:3: interfaceGroups.lan: must be the number of a link group, 0 to 4294967295, not "five"',
        'c.yaml:4: interfaceGroups.wan.group: is missing; it must be the number of the link group',
        `c.yaml:4: interfaceGroups.wan.match: must be a list of ${MATCH_FORM}, not "eth0"`,
        'c.yaml:5: interfaceGroups["1x"]: "1x" is not a valid name: a letter, then letters, digits, "-", "_" and ".", at most 63',
        'c.yaml:5: interfaceGroups["1x"].group: must be the number of a link group, 0 to 4294967295, not -1',
        'c.yaml:5: interfaceGroups["1x"].grp: unknown field',
        'c.yaml:7: failsafe.ingres: unknown field; did you mean ingress?',
        'c.yaml:9: failsafe.egress[0].port: must be a whole number from 1 to 65535, not 0',
        'c.yaml:10: failsafe.egress[1].endPort: 4 is below port 5; the range must end where it starts or later',
        'c.yaml:10: failsafe.egress[1].peers: must be nodes, controllers, any or a list of CIDRs, not "everyone"',
        'c.yaml:11: failsafe.egress[2].protocol: must be TCP, UDP or SCTP, not "icmp"',
        'c.yaml:11: failsafe.egress[2].peers[0]: "10.0.0.1" is not a valid CIDR; for this address alone write 10.0.0.1/32',
        'c.yaml:11: failsafe.egress[2].peers[1]: must be a CIDR, not 5',
        'c.yaml:12: failsafe.egress[3].peers: is missing; it must be nodes, controllers, any, or a list of CIDRs',
        'c.yaml:13: failsafe.egress[4].peers: is empty; it must be nodes, controllers, any or a list of CIDRs',
        'c.yaml:14: featureGate: unknown field; did you mean featureGates?',
        'c.yaml:15: featureGates.AllAlpha: unknown field; known here: NodeNetworkPolicy, EgressGateway',
        'c.yaml:16: dataplane: must be nftables, iptables or auto, not "ebpf"',
        'c.yaml:17: iptables.variant: must be auto, nft or legacy, not "fast"',
        'c.yaml:17: iptables.path: unknown field; known here: variant',
        'c.yaml:18: dispatch: must be indexed or linear, not "fast"',
      ],
    );
  });

  it('rejects invalid settings of egress gateways', () => {
    assert.deepEqual(
      lines(`egress:
  inside: [10.0.0.1]
  serviceCIDRs: 10.96.0.0/12
  unknownPods: Drop
  read: [egressgateway.spidernet.io]
featureGates: {EgressGateway: true}
dataplane: iptables
`),
      [
        'c.yaml:2: egress.inside[0]: "10.0.0.1" is not a valid CIDR; for this address alone write 10.0.0.1/32',
        'c.yaml:3: egress.serviceCIDRs: must be a list, not "10.96.0.0/12"; put "- " before each item',
        'c.yaml:4: egress.unknownPods: must be Hold or Pass, not "Drop"',
        'c.yaml:5: egress.read: is no longer a field: nodewall follows its own egress objects alone; `nodewall migrate` translates those of egressgateway.spidernet.io. Remove it',
        'c.yaml:7: dataplane: iptables has no egress gateways; set dataplane: nftables, or turn feature gate EgressGateway off',
      ],
    );
  });

  it('reads probes of guarded apply, outward and inward ones', () => {
    const { config } = parseConfig(
      `guard:
  enabled: true
  window: 5
  probes:
    - {name: a, tcp: '192.0.2.1:22'}
    - {name: b, http: 'https://[2001:db8::1]/'}
    - {name: c, icmp: '2001:db8::1'}
    - {name: d, tcp: 'node:22', from: peer}
    - {name: e, http: 'http://node6:8080/x', from: controller, direction: ingress}
    - {name: f, icmp: node4, from: peer}
`,
      'c.yaml',
    );
    const b = { kind: 'http', url: 'https://[2001:db8::1]/', address: '2001:db8::1', port: 443 };
    const probes = [
      { name: 'a', target: { kind: 'tcp', address: '192.0.2.1', port: 22 } },
      { name: 'b', target: b },
      { name: 'c', target: { kind: 'icmp', address: '2001:db8::1' } },
    ];
    const inward = [
      { name: 'd', from: 'peer', family: null, target: { kind: 'tcp', port: 22 } },
      {
        name: 'e',
        from: 'controller',
        family: 6,
        target: { kind: 'http', url: 'http://node6:8080/x', port: 8080 },
      },
      { name: 'f', from: 'peer', family: 4, target: { kind: 'icmp' } },
    ];
    assert.deepEqual(config?.guard, { ...DEFAULT_CONFIG.guard, enabled: true, window: 5, probes, inward });
  });

  it('rejects probes of guarded apply that nobody could make', () => {
    const many = Array.from({ length: 9 }, (_, i) => `{name: m${i}, tcp: 'node:1', from: peer}`).join();
    assert.deepEqual(lines(`guard: {probes: [${many}]}`), [
      'c.yaml:1: guard.probes[8]: must not be there: at most 8 probes are made to the node',
    ]);
    assert.deepEqual(
      lines(`guard:
  windows: 5
  probes:
    - {name: dns, tcp: 'example.org:22'}
    - {name: A, http: 'ftp://192.0.2.1', udp: '192.0.2.1:5'}
    - {name: c, icmp: example.org}
    - {name: d, tcp: '192.0.2.1:1', direction: ingress}
    - {name: e, tcp: '192.0.2.1:1', from: peer}
    - {name: f, icmp: node, from: controller}
    - {name: g, udp: 'node:1', from: peer, direction: egress}
    - {name: h, http: 'https://192.0.2.1/', from: controller}
    - {name: i, tcp: 'node:65536', from: peer}
`),
      [
        'c.yaml:2: guard.windows: unknown field; did you mean window?',
        'c.yaml:4: guard.probes[0].name: "dns" is the name of another probe',
        'c.yaml:4: guard.probes[0].tcp: must be an address and a port, as in 192.0.2.1:443 or [2001:db8::1]:443, not "example.org:22"',
        'c.yaml:5: guard.probes[1].name: must have lower-case letters, digits and - only, not "A"',
        'c.yaml:5: guard.probes[1]: must have exactly one of tcp, udp, http, icmp',
        'c.yaml:6: guard.probes[2].icmp: must be an address, as in 192.0.2.1 or 2001:db8::1, not "example.org"',
        'c.yaml:7: guard.probes[3].from: must be peer or controller: a connection of the node to itself passes before any rule',
        `c.yaml:7: guard.probes[3].tcp: ${NODE_AND_PORT}, not "192.0.2.1:1"`,
        `c.yaml:8: guard.probes[4].tcp: ${NODE_AND_PORT}, not "192.0.2.1:1"`,
        'c.yaml:9: guard.probes[5].icmp: cannot be sent by the controller, which has no such right; use from: peer',
        'c.yaml:10: guard.probes[6].direction: must be ingress where "peer" makes the connection',
        'c.yaml:11: guard.probes[7].http: must be a URL with the host node (or node4, node6), as in https://node:10250/healthz, not "https://192.0.2.1/"',
        `c.yaml:12: guard.probes[8].tcp: ${NODE_AND_PORT}, not "node:65536"`,
      ],
    );
  });

  it('rejects times of the leader election with which two could lead, or none for long', () => {
    const at = (times: string): string[] => lines(`leaderElection: {${times}}`);
    assert.deepEqual(at('leaseDuration: 3, renewDeadline: 2, retryPeriod: 1'), []);
    assert.deepEqual(at('leaseDuration: 10'), [
      'c.yaml:1: leaderElection.leaseDuration: 10 must be above renewDeadline, which is 10',
    ]);
    assert.deepEqual(at('renewDeadline: 20, retryPeriod: 20'), [
      'c.yaml:1: leaderElection.renewDeadline: 20 must be below leaseDuration, which is 15',
      'c.yaml:1: leaderElection.retryPeriod: 20 must be below renewDeadline, which is 20',
    ]);
    assert.deepEqual(at('leaseDuration: 12.5'), [
      'c.yaml:1: leaderElection.leaseDuration: must be a whole number from 1 to 3600, not 12.5',
    ]);
  });

  it('rejects limits for iptables that xt_limit cannot count', () => {
    const log = 'log: {rate: 10001, burst: 20000}';
    assert.deepEqual(lines(`${log}\ndataplane: nftables`), []);
    for (const dataplane of ['iptables', 'auto']) {
      assert.deepEqual(lines(`${log}\ndataplane: ${dataplane}`), [
        'c.yaml:1: log.rate: 10001 is more than iptables can count, 10000; set it lower, or dataplane: nftables',
        'c.yaml:1: log.burst: 20000 is more than iptables can count, 10000; set it lower, or dataplane: nftables',
      ]);
      assert.deepEqual(lines(`log: {rate: 10000, burst: 10000}\ndataplane: ${dataplane}`), []);
    }
  });

  it('reports invalid interface groups', () => {
    const matches = [
      '',
      'a b',
      'abcdefghijklmnop',
      'kind:bond',
      'cni:',
      'cni:A',
      '5',
      'a/b',
      '*',
      'abcdefghijklmno*',
      '????',
    ];
    const given = matches.map((match) => JSON.stringify(match)).join(', ');
    assert.deepEqual(
      lines(`interfaceGroups:
  a: {group: 5, match: [${given}, 5]}
  b: 5
  pods: 9
  c: {group: 8}
`),
      [
        ...['', 'a b', 'abcdefghijklmnop', 'kind:bond', 'cni:', 'cni:A'].map((match, index) => {
          return `c.yaml:2: interfaceGroups.a.match[${index}]: must be ${MATCH_FORM}, not ${JSON.stringify(match)}`;
        }),
        `c.yaml:2: interfaceGroups.a.match[7]: must be ${MATCH_FORM}, not "a/b"`,
        `c.yaml:2: interfaceGroups.a.match[11]: must be ${MATCH_FORM}, not 5`,
        'c.yaml:3: interfaceGroups.b: 5 is already the number of a; each name needs its own',
        'c.yaml:4: interfaceGroups.pods: 9 is already the number of clusternet; each name needs its own',
      ],
    );
    assert.deepEqual(lines('interfaceGroups: {lan: 8}'), [
      'c.yaml:1: interfaceGroups.lan: 8 is already the number of pods; each name needs its own',
    ]);
  });

  it('rejects number 0 for the groups of exemptions and masquerade', () => {
    const message = 'must not be 0, the number of every interface that is in no group; for example';
    assert.deepEqual(lines('interfaceGroups: {pods: 0, clusternet: {group: 9}, none: 0}'), [
      `c.yaml:1: interfaceGroups.pods: ${message} 8`,
      'c.yaml:1: interfaceGroups.none: 0 is already the number of pods; each name needs its own',
    ]);
    assert.deepEqual(lines('interfaceGroups: {clusternet: {group: 0}}'), [
      `c.yaml:1: interfaceGroups.clusternet.group: ${message} 9`,
    ]);
    assert.deepEqual(lines('interfaceGroups: {none: 0}'), []);
  });

  it('reports what is no key of a taint in startupTaint', () => {
    assert.deepEqual(lines("startupTaint: ''"), []);
    const [line = '', ...more] = lines('startupTaint: nodewall.io/not ready');
    assert.match(line, /^c\.yaml:1: startupTaint: "nodewall\.io\/not ready" is not a valid label key/);
    assert.deepEqual(more, []);
  });

  it('reports what is no Service in endpointsWithoutPods', () => {
    assert.deepEqual(lines('endpointsWithoutPods: [shop/db, db, a/b/c, Shop/db, 5]'), [
      'c.yaml:1: endpointsWithoutPods[4]: must be text, not 5; put it in quotes',
      'c.yaml:1: endpointsWithoutPods[1]: must be a Service as NAMESPACE/NAME, not "db"',
      'c.yaml:1: endpointsWithoutPods[2]: must be a Service as NAMESPACE/NAME, not "a/b/c"',
      'c.yaml:1: endpointsWithoutPods[3]: must be a Service as NAMESPACE/NAME, not "Shop/db"',
    ]);
  });

  it('reports invalid masquerade, names and log', () => {
    assert.deepEqual(
      lines(`masquerade: {enable: true, except: [10.0.0.1, 5]}
names:
  servers: [dns.example.com, '192.0.2.1:0', '192.0.2.1:65536', '2001:db8::1:5353', '[192.0.2.1]:53', 'fe80::1%eth0']
  minimumTTL: 0
  maximumTTL: 604801
  keep: 1.5
  stale: 1h
  learn: 1
  group: 65536
log:
  file: records.jsonl
  maxBytes: 65535
  maxFiles: 101
  rate: -1
  burst: 0
  group: 0
interfaceGroupFile: group
`),
      [
        'c.yaml:1: masquerade.enable: unknown field; did you mean enabled?',
        'c.yaml:1: masquerade.except[1]: must be text, not 5; put it in quotes',
        'c.yaml:1: masquerade.except[0]: "10.0.0.1" is not a valid CIDR; for this address alone write 10.0.0.1/32',
        ...['dns.example.com', '192.0.2.1:0', '192.0.2.1:65536'].map(
          (server, index) => `c.yaml:3: names.servers[${index}]: must be ${SERVER_FORM}, not "${server}"`,
        ),
        `c.yaml:3: names.servers[4]: must be ${SERVER_FORM}, not "[192.0.2.1]:53"`,
        `c.yaml:3: names.servers[5]: must be ${SERVER_FORM}, not "fe80::1%eth0"`,
        'c.yaml:4: names.minimumTTL: must be a whole number from 1 to 604800, not 0',
        'c.yaml:5: names.maximumTTL: must be a whole number from 1 to 604800, not 604801',
        'c.yaml:6: names.keep: must be a whole number from 1 to 604800, not 1.5',
        'c.yaml:7: names.stale: must be a whole number from 1 to 604800, not "1h"',
        'c.yaml:8: names.learn: must be true or false, not 1',
        'c.yaml:9: names.group: must be a whole number from 1 to 65535, not 65536',
        'c.yaml:11: log.file: must be a path that starts with "/", stdout, or "" for records.jsonl in the state directory, not "records.jsonl"',
        'c.yaml:12: log.maxBytes: must be a whole number from 65536 to 1099511627776, not 65535',
        'c.yaml:13: log.maxFiles: must be a whole number from 1 to 100, not 101',
        'c.yaml:14: log.rate: must be a whole number from 0 to 100000, not -1',
        'c.yaml:15: log.burst: must be a whole number from 1 to 1000000, not 0',
        'c.yaml:16: log.group: must be a whole number from 1 to 65535, not 0',
        'c.yaml:17: interfaceGroupFile: must be a path that starts with "/", or "" for none, not "group"',
      ],
    );
    assert.deepEqual(lines('names: {minimumTTL: 4000}\nlog: {group: 7412}'), [
      'c.yaml:1: names.minimumTTL: 4000 is above maximumTTL, 3600; set it to at most that',
      'c.yaml:2: log.group: 7412 is also names.group; they need different groups',
    ]);
    assert.deepEqual(lines('names: {maximumTTL: 4, group: 7411}'), [
      'c.yaml:1: names.maximumTTL: 4 is below minimumTTL, 5; set it to at least that',
      'c.yaml:1: names.group: 7411 is also log.group; they need different groups',
    ]);
  });

  it('masks host bits, with a warning', () => {
    const { config, problems } = parseConfig(
      'failsafe: {ingress: [{port: 22, peers: [10.1.2.3/8]}]}',
      'c.yaml',
    );
    assert.deepEqual(config?.failsafe.ingress[0]?.peers, ['10.0.0.0/8']);
    assert.deepEqual(
      problems.map(({ severity }) => severity),
      ['warning'],
    );
  });

  it('reports text that is not valid YAML or not an object', () => {
    assert.deepEqual(lines('a: ['), [
      'c.yaml:1: is not valid YAML: Flow sequence in block collection must be sufficiently indented and end with a ]',
    ]);
    assert.deepEqual(lines('- a'), ['c.yaml:1: must be an object with fields, not a list']);
    assert.deepEqual(lines('a: 1\n---\nb: 2').length, 1);
  });
});
