import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG, EXEMPTIONS } from '../../apis/config.ts';
import { chainLines } from './nfttext.ts';
import { baseChain } from './topology.ts';

describe('topology', () => {
  it('has rules for each exemption, and none for one that is off', () => {
    for (const exemption of EXEMPTIONS) {
      const off: Config = {
        ...DEFAULT_CONFIG,
        exemptions: { ...DEFAULT_CONFIG.exemptions, [exemption]: false },
      };
      const [on, without] = [DEFAULT_CONFIG, off].map((config) =>
        (['ingress', 'egress'] as const).flatMap((direction) =>
          chainLines(baseChain(direction, config)).filter((line) => line.includes(`exemption ${exemption}"`)),
        ),
      );
      assert.ok((on ?? []).length > 0, exemption);
      assert.deepEqual(without, [], exemption);
    }
  });

  it('tells DHCP by direction: a client’s answers in, its questions out', () => {
    const dhcp = (direction: 'ingress' | 'egress') =>
      chainLines(baseChain(direction, DEFAULT_CONFIG)).filter((line) => line.includes('dhcp'));
    assert.match(
      dhcp('ingress').join('\n'),
      /ipv4 udp sport 67 udp dport 68 .*\n.*ipv6 udp sport 547 udp dport 546/,
    );
    assert.match(
      dhcp('egress').join('\n'),
      /ipv4 udp dport 67 udp sport 68 .*\n.*ipv6 udp dport 547 udp sport 546/,
    );
  });

  it('knows the pods’ interfaces by the configured group', () => {
    const config: Config = { ...DEFAULT_CONFIG, interfaceGroups: { pods: 20, clusternet: 9 } };
    assert.ok(chainLines(baseChain('egress', config)).some((line) => line.startsWith('oifgroup 20 accept')));
  });
});
