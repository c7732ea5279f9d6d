import assert from 'node:assert/strict';
import { variantOf } from './variant.ts';

describe('the variant of iptables', () => {
  it('is recognized by its version output', () => {
    assert.equal(variantOf('iptables v1.8.9 (nf_tables)\n'), 'nft');
    assert.equal(variantOf('iptables v1.8.9 (legacy)\n'), 'legacy');
    assert.equal(variantOf('iptables v1.6.1\n'), 'legacy');
  });
});
