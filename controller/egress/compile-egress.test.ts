import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { egressInput, fakePod } from '../../test/fake/egress-objects.ts';
import { compileEgress } from './compile-egress.ts';

describe('egress gateways of the whole cluster', () => {
  it('are compiled for more pods than a function call takes arguments', () => {
    const pods = Array.from({ length: 130_000 }, (_, i) =>
      fakePod(`shop/p${i}`, [`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`], { node: 'w' }),
    );
    assert.throws(() => Math.max(...pods.map((_, i) => i)), RangeError);
    const { sources } = compileEgress(egressInput({ pods }), DEFAULT_EGRESS_CONFIG);
    assert.equal(sources.get('w')?.size, pods.length);
  });
});
