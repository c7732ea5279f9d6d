import assert from 'node:assert/strict';
import { chainName, comment, identifier, setName } from './nft-text.ts';

describe('name', () => {
  it('has purpose, hash and words, in letters that nft accepts', () => {
    assert.equal(chainName('ingress', 'abc', 'web.shop-rule 1/é'), 'ingress-abc-web.shop-rule_1__');
    assert.equal(setName('3da0c8267039', 6), 'peers-3da0c8267039-v6');
  });

  it('is cut, and keeps the hash', () => {
    const name = chainName('ingress', 'abc', 'x'.repeat(500));
    assert.equal(name.length, 128);
    assert.equal(identifier(name), name);
    assert.ok(name.startsWith('ingress-abc-'));
  });

  it('comments are cut to 128 bytes, never within a character', () => {
    assert.equal(comment('a'.repeat(120)), 'a'.repeat(120));
    for (const letter of ['a', 'é', '€', '😀']) {
      for (let before = 0; before < 4; before++) {
        const words = comment('a'.repeat(before) + letter.repeat(200));
        assert.ok(Buffer.byteLength(words) <= 128);
        assert.match(words, new RegExp(`^a*(${letter})+\\.\\.\\.$`, 'u'));
      }
    }
  });
});
