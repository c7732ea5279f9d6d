import assert from 'node:assert/strict';
import type { Link } from 'nftables-napi';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { BARE } from '../../test/fake/fake-links.ts';
import type { LinkAttachment } from './attachment.ts';
import {
  CNIS,
  classifier,
  type GroupReason,
  groupReasonText,
  type OwnedGroup,
  PRESETS,
  unknownMatches,
} from './classify.ts';

const LINK: Link = { ...BARE, index: 2, name: 'x', isUp: true };
const outward = { kind: 'veth', peer: 2, peerNamespace: 0 } as const;
type Case = readonly [name: string, fields: Partial<Link>, group: number, why: string];

/** One link alone, with the default configuration. */
const ALONE: readonly Case[] = [
  ['lo', { isLoopback: true }, 0, 'loopback'],
  ['eth0', {}, 0, 'none'],
  ['bond0', { kind: 'bond' }, 0, 'none'],
  ['eth0.7', { kind: 'vlan', peer: 2 }, 0, 'none'],
  ['br-1f2e3d4c5b6a', { kind: 'bridge' }, 0, 'none'],
  ['wg0', { kind: 'wireguard' }, 0, 'none'],
  ['veth12', outward, 8, 'kind:veth'],
  ['nk0', { ...outward, kind: 'netkit' }, 8, 'kind:veth'],
  ['veth12', { kind: 'veth', peer: 3 }, 0, 'none'],
  ['mac0', { kind: 'macvlan', peer: 2, peerNamespace: 0 }, 0, 'none'],
  // The node itself is a container.
  ['eth0', outward, 0, 'own name'],
  ['eth12', outward, 0, 'own name'],
  ['enp5s0', outward, 0, 'own name'],
  ['ens3', outward, 0, 'own name'],
  ['host0', outward, 0, 'own name'],
  ['wlan0', outward, 0, 'own name'],
  ['uplink', outward, 0, 'own address'],
  ['lxcnet', outward, 0, 'own node'],
  ['routed', outward, 0, 'own route'],
  ['ptp', outward, 0, 'own address'],
  ['cilium_net', outward, 8, 'cni:* cilium'],
  ['eni8f4c1ab2345', outward, 8, 'kind:veth'],
  ['ethernet', outward, 8, 'kind:veth'],
  // CNIs before they move the other end.
  ['cali123', { kind: 'veth', peer: 3 }, 8, 'cni:* calico'],
  ['cali123', {}, 0, 'none'],
  ['calibr', { kind: 'bridge' }, 0, 'none'],
  ['vxlan.calico', { kind: 'vxlan' }, 9, 'cni:* calico'],
  ['tunl0', { kind: 'ipip' }, 9, 'cni:* calico'],
  ['wireguard.cali', { kind: 'wireguard' }, 9, 'cni:* calico'],
  ['cni0', { kind: 'bridge' }, 8, 'cni:* flannel'],
  ['flannel.1', { kind: 'vxlan' }, 9, 'cni:* flannel'],
  ['flannel.1', {}, 0, 'none'],
  ['flannelx1', { kind: 'vxlan' }, 0, 'none'],
  ['lxc0a1b', { kind: 'veth', peer: 3 }, 8, 'cni:* cilium'],
  ['lxcbr0', { kind: 'bridge' }, 0, 'none'],
  ['cilium_host', { kind: 'veth', peer: 3 }, 8, 'cni:* cilium'],
  ['cilium_vxlan', { kind: 'vxlan' }, 9, 'cni:* cilium'],
  ['antrea-gw0', { kind: 'openvswitch' }, 8, 'cni:* antrea'],
  ['genev_sys_6081', { kind: 'geneve' }, 9, 'cni:* antrea'],
  ['ovn-k8s-mp0', { kind: 'openvswitch' }, 8, 'cni:* ovn-kubernetes'],
  ['kube-bridge', { kind: 'bridge' }, 8, 'cni:* kube-router'],
  ['tun-10001', { kind: 'ipip' }, 9, 'cni:* kube-router'],
  ['tun-10001', { kind: 'tun' }, 0, 'none'],
  ['weave', { kind: 'bridge' }, 8, 'cni:* weave'],
  ['vxlan-6784', { kind: 'vxlan' }, 9, 'cni:* weave'],
  ['enid41d', { kind: 'veth', peer: 3 }, 8, 'cni:* aws'],
  ['azv12', { kind: 'veth', peer: 3 }, 8, 'cni:* azure'],
  ['gke12', { kind: 'veth', peer: 3 }, 8, 'cni:* gke'],
  ['oci12', { kind: 'veth', peer: 3 }, 8, 'cni:* oke'],
  ['cbr0', { kind: 'bridge' }, 8, 'cni:* kubenet'],
  ['bridge', { kind: 'bridge' }, 8, 'cni:* minikube'],
  ['docker0', { kind: 'bridge' }, 8, 'cni:* docker'],
  ['podman0', { kind: 'bridge' }, 8, 'cni:* podman'],
  // Links that already have a group.
  ['veth12', { ...outward, group: 5 }, 5, 'foreign'],
  ['veth12', { ...outward, group: 8 }, 8, 'foreign'],
  ['eth0', { group: 8 }, 8, 'foreign'],
  ['lo', { isLoopback: true, group: 8 }, 8, 'foreign'],
];

function word(reason: GroupReason): string {
  if (reason.kind === 'own') return `own ${reason.by}`;
  if (reason.kind !== 'match') return reason.kind;
  return reason.preset === null ? reason.match : `${reason.match} ${reason.preset}`;
}

const by = (how: LinkAttachment['by'], gateways: readonly string[] = []): LinkAttachment => ({
  by: how,
  gateways,
});
/** By name. */
const ATTACHED: Readonly<Record<string, LinkAttachment>> = {
  uplink: by('address'),
  lxcnet: by('node'),
  'antrea-gw0': by('address'),
  'ovn-k8s-mp0': by('route'),
  cni0: by('address'),
  cilium_host: by('route', ['10.0.0.72']),
  cilium_net: by(null, ['10.0.0.73']),
  routed: by('route'),
  ptp: by(null, ['10.244.1.1']),
  'ptp-1': by(null, ['10.244.1.1', 'fd00::1']),
  'ptp-2': by(null, ['10.244.1.1', 'fd00::1']),
};

interface Given {
  readonly config?: Partial<typeof DEFAULT_CONFIG>;
  readonly held?: readonly OwnedGroup[];
  readonly attached?: Readonly<Record<string, LinkAttachment>>;
}

function decide(
  links: readonly Link[],
  { config = {}, held = [], attached = ATTACHED }: Given = {},
): string[] {
  const attachments = new Map(
    links.flatMap(({ name, index }) => {
      const found = attached[name];
      return found === undefined ? [] : [[index, found] as const];
    }),
  );
  const known = { held: new Map(held.map((one) => [one.index, one])), attachments };
  return classifier({ ...DEFAULT_CONFIG, ...config })(links, known).map(
    ({ group, reason }) => `${group} ${word(reason)}`,
  );
}

describe('classify', () => {
  for (const [name, fields, group, why] of ALONE) {
    it(`${name} ${JSON.stringify(fields)}: ${group}, ${why}`, () => {
      assert.deepEqual(decide([{ ...LINK, name, ...fields }]), [`${group} ${why}`]);
    });
  }

  it('has a case for every CNI, and never matches an interface without a kind', () => {
    const tried = new Set(ALONE.map(([, , , why]) => why.split(' ')[1]));
    assert.deepEqual(
      CNIS.filter((cni) => !tried.has(cni)),
      [],
    );
    for (const { names } of PRESETS) {
      for (const name of names) {
        const plain = name.replace('*', 'abc');
        assert.deepEqual(decide([{ ...LINK, name: plain }]), ['0 none'], plain);
      }
    }
  });

  describe('a bridge', () => {
    const bridge: Link = { ...LINK, index: 10, name: 'br7', kind: 'bridge' };
    const port = (index: number, fields: Partial<Link> = {}): Link => ({
      ...LINK,
      ...outward,
      index,
      name: `p${index}`,
      master: 10,
      ...fields,
    });
    const first = (...links: readonly Link[]) => decide([bridge, ...links])[0];

    it('with pods only is one', () => assert.equal(first(port(11), port(12)), '8 kind:bridge'));
    it('without ports is not', () => assert.equal(first(), '0 none'));
    it('with an address, or a route, is not, nor is a port of it', () => {
      for (const how of ['address', 'route', 'default', 'node'] as const) {
        const attached = { br7: by(how) };
        assert.deepEqual(decide([bridge, port(11)], { attached }), [`0 own ${how}`, '0 own master']);
      }
      const attached = { br7: by(null, ['10.2.0.1']) };
      assert.deepEqual(decide([bridge, port(11)], { attached }), ['0 own address', '0 own master']);
    });
    it('with an address that the configuration names is one, with its ports', () => {
      const config = { interfaceMatches: { pods: ['kind:veth', 'kind:bridge', 'br7'] } };
      const attached = { br7: by('address') };
      assert.deepEqual(decide([bridge, port(11)], { attached, config }), ['8 br7', '8 kind:veth']);
    });
    it('with an address, named for another group, is none, and its ports are not', () => {
      const config = {
        interfaceGroups: { pods: 8, clusternet: 9, storage: 20 },
        interfaceMatches: { pods: ['kind:veth', 'kind:bridge'], storage: ['br7'] },
      };
      const attached = { br7: by('address') };
      assert.deepEqual(decide([bridge, port(11)], { attached, config }), ['20 br7', '0 own master']);
    });
    it('of a CNI with its address has pods as ports, unless the node is attached by it', () => {
      const links = [{ ...bridge, name: 'cni0' }, port(11)];
      assert.deepEqual(decide(links), ['8 cni:* flannel', '8 kind:veth']);
      for (const how of ['default', 'node'] as const) {
        const attached = { cni0: by(how) };
        assert.deepEqual(decide(links, { attached }), [`0 own ${how}`, '0 own master']);
      }
    });
    it('with a port that has an address of its own is not', () => {
      const attached = { p12: by('address') };
      assert.equal(decide([bridge, port(11), port(12)], { attached })[0], '0 none');
    });
    it('with hardware is not', () =>
      assert.equal(first(port(11), port(12, { kind: null, peerNamespace: null })), '0 none'));
    it('that attaches the node itself is not, whatever the names of its ports', () => {
      assert.equal(decide([{ ...bridge, name: 'uplink' }, port(11)])[0], '0 own address');
      assert.equal(decide([{ ...bridge, name: 'eth0' }, port(11)])[0], '0 own name');
    });
    it("with a container's own eth0 is not", () =>
      assert.equal(first(port(11), port(12, { name: 'eth0' })), '0 none'));
    it('with a tunnel is not', () => assert.equal(first(port(11), port(12, { kind: 'vxlan' })), '0 none'));
    it("whose port has a third party's group still is", () =>
      assert.equal(first(port(11, { group: 5 })), '8 kind:bridge'));
    it('of a CNI with a tunnel in it still is, by its name', () =>
      assert.equal(decide([{ ...bridge, name: 'cni0' }, port(11, { kind: 'vxlan' })])[0], '8 cni:* flannel'));
  });

  it('a single address is of a gateway if several pairs have it', () => {
    const pair = (name: string, index: number): Link => ({ ...LINK, ...outward, name, index });
    assert.deepEqual(decide([pair('ptp-1', 2), pair('ptp', 3)]), ['0 own address', '8 kind:veth']);
    assert.deepEqual(decide([pair('ptp-1', 2), pair('ptp-2', 3)]), ['8 kind:veth', '8 kind:veth']);
    const other: Link = { ...LINK, name: 'ptp-2', index: 3, isLoopback: true };
    assert.deepEqual(decide([pair('ptp-1', 2), other]), ['0 own address', '0 loopback']);
  });

  it('a port of another master that has an address is not a pod’s', () => {
    const vrf: Link = { ...LINK, index: 10, name: 'red', kind: 'vrf' };
    const port: Link = { ...LINK, ...outward, index: 11, name: 'p11', master: 10 };
    assert.deepEqual(decide([vrf, port], { attached: { red: by('address') } }), ['0 none', '0 own master']);
    assert.deepEqual(decide([vrf, port], { attached: {} }), ['0 none', '8 kind:veth']);
  });

  describe('a group that nodewall set', () => {
    const held = [{ index: 2, name: 'x', group: 8 }];
    it('stays', () =>
      assert.deepEqual(decide([{ ...LINK, ...outward, group: 8 }], { held }), ['8 kind:veth']));
    it('is reset to 0 when nothing matches any more', () =>
      assert.deepEqual(decide([{ ...LINK, group: 8 }], { held }), ['0 none']));
    it('changes to the number that is configured now', () => {
      const config = { interfaceGroups: { pods: 20, clusternet: 9 } };
      assert.deepEqual(decide([{ ...LINK, ...outward, group: 8 }], { held, config }), ['20 kind:veth']);
    });
    it('belongs to a third party once the interface has another group', () =>
      assert.deepEqual(decide([{ ...LINK, ...outward, group: 5 }], { held }), ['5 foreign']));
    it('is set again once the interface has none', () =>
      assert.deepEqual(decide([{ ...LINK, ...outward }], { held }), ['8 kind:veth']));
  });

  describe('configuration', () => {
    const config = {
      interfaceGroups: { pods: 8, clusternet: 9, zeta: 12, alpha: 11 },
      interfaceMatches: {
        pods: ['p?d*'],
        clusternet: ['cni:calico'],
        zeta: ['*'],
        alpha: ['a.*', 'cni:flannel'],
      },
    };
    const one = (name: string, fields: Partial<Link> = {}) =>
      decide([{ ...LINK, name, ...fields }], { config })[0];

    it('globs understand ? and *, and nothing else', () => {
      assert.equal(one('pod1'), '8 p?d*');
      assert.equal(one('pood1'), '12 *');
      assert.equal(one('a.1'), '11 a.*');
      assert.equal(one('ab1'), '12 *');
    });
    it('groups are tried in order: pods, clusternet, then by name', () => {
      assert.equal(one('vxlan.calico', { kind: 'vxlan' }), '9 cni:calico calico');
      assert.equal(one('cali1', { kind: 'veth' }), '12 *');
      assert.equal(one('cni0', { kind: 'bridge' }), '11 cni:flannel flannel');
    });
    it('names go before what is recognized, whatever the order of groups', () => {
      const storage = {
        interfaceGroups: { pods: 8, clusternet: 9, storage: 20 },
        interfaceMatches: { ...DEFAULT_CONFIG.interfaceMatches, storage: ['stor*', 'cali7', 'kind:veth'] },
      };
      const given = (name: string) => decide([{ ...LINK, ...outward, name }], { config: storage })[0];
      assert.deepEqual(['stor0', 'cali7', 'cali8'].map(given), ['20 stor*', '20 cali7', '8 kind:veth']);
    });
    it('a configured name always matches', () => {
      assert.equal(one('pod0', outward), '8 p?d*');
      assert.equal(one('uplink', outward), '12 *');
    });
    it('number 0 is no group', () => {
      const none = { interfaceGroups: { pods: 0, clusternet: 9 } };
      assert.deepEqual(decide([{ ...LINK, ...outward }], { config: none }), ['0 none']);
    });
  });

  it('lists unknown words of the configuration', () => {
    assert.deepEqual(unknownMatches(DEFAULT_CONFIG), []);
    const interfaceMatches = { pods: ['kind:vlan', 'cni:calico', 'x*'], lan: ['cni:calcio'] };
    const [kind, cni, ...more] = unknownMatches({ interfaceMatches });
    assert.match(
      kind ?? '',
      /^interfaceGroups.pods.match: kind:vlan is unknown; valid are kind:veth, kind:bridge$/,
    );
    assert.match(
      cni ?? '',
      /^interfaceGroups.lan.match: cni:calcio is unknown; valid are cni:\*, .*cni:calico/,
    );
    assert.deepEqual(more, []);
  });

  it('gives a human-readable reason', () => {
    const reasons: GroupReason[] = [
      { kind: 'loopback' },
      { kind: 'foreign' },
      { kind: 'none' },
      ...(['name', 'node', 'default', 'address', 'route', 'master'] as const).map(
        (how) => ({ kind: 'own', by: how }) as const,
      ),
      { kind: 'match', match: 'kind:veth', preset: null },
      { kind: 'match', match: 'kind:bridge', preset: null },
      { kind: 'match', match: 'cni:*', preset: 'calico' },
      { kind: 'match', match: 'pod*', preset: null },
    ];
    assert.equal(new Set(reasons.map(groupReasonText)).size, reasons.length);
  });
});
