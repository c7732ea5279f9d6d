import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from './config.ts';
import { parseConfig } from './config-file.ts';
import { formatProblem } from './validate/problem.ts';

const lines = (text: string): string[] => parseConfig(text, 'c.yaml').problems.map(formatProblem);

describe('parseConfig', () => {
  it('takes an empty file for the defaults', () => {
    for (const text of ['', '# nothing\n', '{}']) {
      assert.deepEqual(parseConfig(text, 'c.yaml'), { config: DEFAULT_CONFIG, problems: [] });
    }
  });

  it('fills in what is given and leaves the rest', () => {
    const { config, problems } = parseConfig(
      `exemptions: {localPods: false}
interfaceGroups: {lan: 5, wan: {group: 6}}
failsafe:
  ingress:
    - {protocol: TCP, port: 22, peers: [192.0.2.0/24, 2001:db8::/32]}
    - {protocol: UDP, port: 100, endPort: 200, peers: any}
    - {peers: nodes}
featureGates: {NodeNetworkPolicy: false}
dataplane: nftables
dispatch: linear
`,
      'c.yaml',
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(config, {
      exemptions: { ...DEFAULT_CONFIG.exemptions, localPods: false },
      interfaceGroups: { pods: 8, clusternet: 9, lan: 5, wan: 6 },
      failsafe: {
        ingress: [
          { protocol: 'tcp', ports: [22, 22], peers: ['192.0.2.0/24', '2001:db8::/32'] },
          { protocol: 'udp', ports: [100, 200], peers: 'any' },
          { protocol: 'tcp', ports: [0, 65535], peers: 'nodes' },
        ],
        egress: DEFAULT_CONFIG.failsafe.egress,
      },
      featureGates: { NodeNetworkPolicy: false },
      dataplane: 'nftables',
      dispatch: 'linear',
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
  wan: {match: [eth0]}
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
dataplane: auto
dispatch: fast
`),
      [
        'c.yaml:1: exemptions.dhcp: unknown field; known here: loopback, neighborDiscovery, multicastListener, dhcpClient, localPods',
        'c.yaml:1: exemptions.loopback: must be true or false, not "yes"',
        'c.yaml:3: interfaceGroups.lan: must be the number of a link group, 0 to 4294967295, not "five"',
        'c.yaml:4: interfaceGroups.wan.group: is missing; it must be the number of the link group',
        'c.yaml:4: interfaceGroups.wan.match: is not supported yet',
        'c.yaml:5: interfaceGroups["1x"]: "1x" is no name: a letter, then letters, digits, "-", "_" and ".", at most 63',
        'c.yaml:5: interfaceGroups["1x"].group: must be the number of a link group, 0 to 4294967295, not -1',
        'c.yaml:5: interfaceGroups["1x"].grp: unknown field',
        'c.yaml:7: failsafe.ingres: unknown field; did you mean ingress?',
        'c.yaml:9: failsafe.egress[0].port: must be a whole number from 1 to 65535, not 0',
        'c.yaml:10: failsafe.egress[1].endPort: 4 is below port 5; the range must end where it starts or later',
        'c.yaml:10: failsafe.egress[1].peers: must be nodes, any or a list of CIDRs, not "everyone"',
        'c.yaml:11: failsafe.egress[2].protocol: must be TCP, UDP or SCTP, not "icmp"',
        'c.yaml:11: failsafe.egress[2].peers[0]: "10.0.0.1" is no CIDR; for this address alone write 10.0.0.1/32',
        'c.yaml:11: failsafe.egress[2].peers[1]: must be a CIDR, not 5',
        'c.yaml:12: failsafe.egress[3].peers: is missing; it must be nodes, any, or a list of CIDRs.',
        'c.yaml:13: failsafe.egress[4].peers: is empty; it must be nodes, any or a list of CIDRs',
        'c.yaml:14: featureGate: unknown field; did you mean featureGates?',
        'c.yaml:15: featureGates.AllAlpha: unknown field; known here: NodeNetworkPolicy',
        'c.yaml:16: dataplane: auto is not supported yet; use nftables or leave it out',
        'c.yaml:17: dispatch: must be indexed or linear, not "fast"',
      ],
    );
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

  it('reports what is no YAML or no object', () => {
    assert.deepEqual(lines('a: ['), [
      'c.yaml:1: is no YAML: Flow sequence in block collection must be sufficiently indented and end with a ]',
    ]);
    assert.deepEqual(lines('- a'), ['c.yaml:1: must be an object with fields, not a list']);
    assert.deepEqual(lines('a: 1\n---\nb: 2').length, 1);
  });
});
