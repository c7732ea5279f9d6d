import assert from 'node:assert/strict';
import type { Flow } from '../../apis/flow.ts';
import type { OtherTable } from './machine-facts.ts';
import { flowTranslator, type Translation } from './translation.ts';

const nft = (text: string): OtherTable => ({
  name: 'ip nat',
  families: [4],
  chains: ['PREROUTING'],
  syntax: 'nft',
  text,
});
const iptables = (text: string): OtherTable => ({ ...nft(text), syntax: 'iptables' });

const OWN = ['127.0.0.1', '192.0.2.1', '192.0.2.9'];
const ELSEWHERE = { traffic: 'NodePort' } as const;

/** As the programs themselves write them. */
const DOCKER = nft(`table ip nat {
	chain DOCKER {
		iifname "docker0" counter packets 0 bytes 0 return
		iifname != "docker0" meta l4proto tcp tcp dport 8080 counter packets 2 bytes 120 dnat to 172.17.0.2:80
		iifname != "docker0" meta l4proto 17 udp dport 5000-5010 counter packets 0 bytes 0 dnat to 172.17.0.3
	}
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
		fib daddr type 2 counter packets 5 bytes 300 jump DOCKER
	}
	chain OUTPUT {
		type nat hook output priority dstnat; policy accept;
		ip daddr != 127.0.0.0/8 fib daddr type local counter packets 0 bytes 0 jump DOCKER
	}
}`);
const DOCKER_SAVED = iptables(`*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80
-A DOCKER ! -i docker0 -p udp -m udp --dport 5000:5010 -j DNAT --to-destination 172.17.0.3
COMMIT`);
const PORTMAP = iptables(`-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"cbr0\\" id: \\"a1\\"" -m multiport --dports 8080,8443 -j CNI-DN-1
-A CNI-DN-1 -s 10.244.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-1 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.244.0.9:80
-A CNI-DN-1 -p tcp -m tcp --dport 8443 -j DNAT --to-destination 10.244.0.9:443`);
const KUBE_PROXY = iptables(`-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-API
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web" -m tcp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-EXT-WEB -m comment --comment "masquerade traffic" -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -j KUBE-SVC-WEB
-A KUBE-SVC-WEB -m comment --comment "shop/web" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-1
-A KUBE-SVC-WEB -m comment --comment "shop/web" -j KUBE-SEP-2
-A KUBE-SEP-1 -p tcp -m comment --comment "shop/web" -m tcp -j DNAT --to-destination 10.244.1.5:80
-A KUBE-SEP-2 -p tcp -m comment --comment "shop/web" -m tcp -j DNAT --to-destination 10.244.2.5:80
-A KUBE-SVC-API -j KUBE-SEP-API
-A KUBE-SEP-API -p tcp -m tcp -j DNAT --to-destination 192.0.2.1:6443`);
const REDIRECTED = nft(`	chain PREROUTING {
		type nat hook prerouting priority dstnat;
		tcp dport { 80, 90-99 } redirect to :8080
		tcp dport 443 dnat to 127.0.0.1:8443
		tcp dport 25 redirect
	}`);
const CONDITIONS = nft(`	chain PREROUTING {
		type nat hook prerouting priority dstnat;
		ip saddr 203.0.113.0/24 tcp dport 81 dnat to 10.0.0.5:80
		tcp dport 82 dnat to 10.0.0.5
		tcp dport 82 redirect to :83
		tcp dport 84 dnat to numgen random mod 2 map { 0 : 10.0.0.5, 1 : 10.0.0.6 }
		ip daddr 192.0.2.9 jump others
		ip saddr 203.0.113.7 return
		tcp dport 86 dnat to 10.0.0.5
		dnat to 10.0.0.7
	}
	chain others {
		tcp dport 85 dnat to 10.0.0.5
	}
	chain nobody {
		tcp dport 87 dnat to 10.0.0.5
	}`);

describe('the translation of packets by rules of others', () => {
  const at = (table: OtherTable, dstPort: number, more: Partial<Flow> = {}): Translation | null =>
    flowTranslator(
      [table],
      OWN,
    )({ direction: 'ingress', protocol: 'tcp', src: '198.51.100.7', dstPort, ...more });

  const sure: readonly (readonly [string, OtherTable, number, Partial<Flow>, Translation['judgedAs']])[] = [
    ['Docker', DOCKER, 8080, {}, ELSEWHERE],
    ['Docker', DOCKER, 5005, { protocol: 'udp' }, ELSEWHERE],
    ['Docker, as iptables prints it', DOCKER_SAVED, 8080, {}, ELSEWHERE],
    ['Docker, as iptables prints it', DOCKER_SAVED, 5010, { protocol: 'udp' }, ELSEWHERE],
    ["the CNI's portmap", PORTMAP, 8080, {}, ELSEWHERE],
    ["the CNI's portmap", PORTMAP, 8443, {}, ELSEWHERE],
    ['a redirection', REDIRECTED, 95, {}, { dstPort: 8080 }],
    ['a redirection', REDIRECTED, 25, {}, { dstPort: 25 }],
    ['an address of this machine', REDIRECTED, 443, {}, { dstPort: 8443 }],
  ];
  for (const [what, table, port, more, judgedAs] of sure) {
    it(`says how policies judge it: ${what}, port ${port}`, () => {
      assert.deepEqual(at(table, port, more), { tables: ['ip nat (1)'], judgedAs });
    });
  }

  it('knows which address the packet is for, where the flow has it', () => {
    assert.deepEqual(at(CONDITIONS, 85), { tables: ['ip nat (1)'] });
    assert.deepEqual(at(CONDITIONS, 85, { dst: '192.0.2.9' }), {
      tables: ['ip nat (1)'],
      judgedAs: ELSEWHERE,
    });
  });

  it('follows a node port to all pods of its Service', () => {
    assert.deepEqual(at(KUBE_PROXY, 30080), { tables: ['ip nat (2)'], judgedAs: ELSEWHERE });
  });

  it('leaves open what depends on more than the port', () => {
    for (const port of [81, 84, 85, 86])
      assert.deepEqual(at(CONDITIONS, port), { tables: ['ip nat (1)'] }, `${port}`);
    assert.deepEqual(at(CONDITIONS, 82), { tables: ['ip nat (2)'] });
  });

  it('says nothing of other packets', () => {
    assert.equal(at(KUBE_PROXY, 443), null, 'for the address of a Service alone');
    assert.equal(at(CONDITIONS, 85, { dst: '192.0.2.1' }), null);
    for (const table of [DOCKER, DOCKER_SAVED, PORTMAP, KUBE_PROXY, REDIRECTED, CONDITIONS]) {
      for (const port of [22, 30081, 87]) assert.equal(at(table, port), null, `${port}`);
      assert.equal(at(table, 8080, { src: '2001:db8::7' }), null);
      assert.equal(at(table, 8080, { traffic: 'NodePort' }), null);
      assert.equal(at(table, 8080, { direction: 'egress' }), null);
    }
    assert.equal(at(DOCKER, 8080, { protocol: 'udp' }), null);
  });

  it('counts a table once that nft cannot print whole', () => {
    const flow: Flow = { direction: 'ingress', protocol: 'tcp', dstPort: 8080 };
    assert.deepEqual(flowTranslator([DOCKER, DOCKER_SAVED], OWN)(flow)?.tables, ['ip nat (1)']);
  });
});
