import assert from 'node:assert/strict';
import { type Authority, advanceAuthority, OVERLAP, trustedCertificates } from './authority.ts';
import { AUTHORITY_LIFE, BACKDATED, type CertificateAndKey, makeAuthority } from './issue.ts';

describe('advanceAuthority', () => {
  const START = Date.parse('2026-01-01T00:00:00Z');
  let first: Authority;
  before(async () => {
    first = await at(null, 0);
  });

  const at = (authority: Authority | null, after: number): Promise<Authority> =>
    advanceAuthority(authority, new Date(START + after), makeAuthority);
  const trusted = (authority: Authority, ...pairs: readonly CertificateAndKey[]): void =>
    assert.equal(
      trustedCertificates(authority),
      pairs.map(({ certificate }) => `${certificate.trim()}\n`).join(''),
    );

  it('makes a missing CA, and keeps it for two thirds of its lifetime', async () => {
    trusted(first, first.current);
    assert.equal(await at(first, (AUTHORITY_LIFE * 2) / 3 - 1000), first);
  });

  it('publishes the next CA, signs with it a week later, and trusts the previous one until it expires', async () => {
    const made = (AUTHORITY_LIFE * 2) / 3;
    const published = await at(first, made);
    const { next } = published;
    assert.ok(next !== null);
    trusted(published, first.current, next);
    assert.equal(await at(published, made + OVERLAP - 1000), published);
    const signing = await at(published, made + OVERLAP);
    assert.deepEqual(signing.current, next);
    trusted(signing, first.current, next);
    assert.equal(await at(signing, AUTHORITY_LIFE - 1000), signing);
    trusted(await at(signing, AUTHORITY_LIFE), next);
  });

  it('discards a CA that was made by a clock ahead of time', async () => {
    const jumped = await at(first, 20 * AUTHORITY_LIFE);
    const again = await at(jumped, 1000);
    assert.notEqual(again.current, jumped.current);
    assert.equal(await at(again, 2000), again);
    const early = await at(first, (AUTHORITY_LIFE * 2) / 3);
    assert.ok(early.next !== null);
    const { current, next } = await at(early, 1000);
    assert.deepEqual([current, next], [first.current, null]);
    // Clocks may differ by up to an hour.
    assert.equal(await at(first, -BACKDATED), first);
  });

  it('signs with the next CA at once if the current one has expired', async () => {
    const late = await at(first, AUTHORITY_LIFE);
    assert.notEqual(late.current, first.current);
    trusted(late, late.current);
  });
});
