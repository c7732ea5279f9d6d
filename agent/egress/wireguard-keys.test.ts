import assert from 'node:assert/strict';
import { createPublicKey, diffieHellman, generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { isWireGuardKey } from '../../apis/egress/node-egress.ts';
import { WIREGUARD_KEY_FILE } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { publicKeyText, savedKeys, wireguardKeys } from './wireguard-keys.ts';

describe('wireguardKeys', () => {
  let folder: string;
  const said: string[] = [];
  const log = {
    error: (message: string, fields: object) => said.push(message, JSON.stringify(fields)),
  } as unknown as Log;
  beforeEach(async () => {
    said.length = 0;
    folder = await mkdtemp(join(tmpdir(), 'nodewall-keys-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('are made once, kept for the next process, and readable for root alone', async () => {
    const keys = await savedKeys(folder, log);
    assert.deepEqual(await savedKeys(folder, log), keys);
    assert.equal((await stat(join(folder, WIREGUARD_KEY_FILE))).mode & 0o777, 0o600);
    assert.ok(isWireGuardKey(publicKeyText(keys)));
    assert.deepEqual(said, []);
  });

  it('are a pair of X25519', async () => {
    const { privateKey, publicKey } = await savedKeys(folder, log);
    assert.deepEqual([privateKey.length, publicKey.length], [32, 32]);
    const other = generateKeyPairSync('x25519');
    const spki = Buffer.from(other.publicKey.export({ format: 'der', type: 'spki' }));
    spki.set(publicKey, spki.length - publicKey.length);
    const pkcs8 = Buffer.from(other.privateKey.export({ format: 'der', type: 'pkcs8' }));
    pkcs8.set(privateKey, pkcs8.length - privateKey.length);
    const { createPrivateKey } = await import('node:crypto');
    const own = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
    const ownPublic = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    assert.deepEqual(
      diffieHellman({ privateKey: own, publicKey: other.publicKey }),
      diffieHellman({ privateKey: other.privateKey, publicKey: ownPublic }),
    );
  });

  it('are others where the file is damaged or cannot be written; no message has one', async () => {
    await writeFile(join(folder, WIREGUARD_KEY_FILE), 'rubbish');
    const keys = await savedKeys(folder, log);
    assert.equal(said[0], 'the saved WireGuard key cannot be used; making a new one');
    assert.deepEqual(await savedKeys(folder, log), keys);
    const file = await readFile(join(folder, WIREGUARD_KEY_FILE), 'utf8');
    const secret = Buffer.from(keys.privateKey).toString('base64');
    assert.ok(file.includes(secret));
    await savedKeys(join(folder, WIREGUARD_KEY_FILE), log);
    assert.equal(said.at(-2), 'the WireGuard key cannot be saved; the next start makes another one');
    assert.ok(said.every((text) => !text.includes(secret)));
  });

  it('are not made where nothing is encrypted', async () => {
    const { egress } = DEFAULT_CONFIG;
    const encrypted = { ...egress, encryption: 'WireGuard' } as const;
    for (const config of [
      { featureGates: { NodeNetworkPolicy: true, EgressGateway: true }, egress },
      { featureGates: { NodeNetworkPolicy: true }, egress: encrypted },
    ])
      assert.equal(await wireguardKeys(folder, config, log), null);
    const on = { featureGates: { NodeNetworkPolicy: true, EgressGateway: true }, egress: encrypted };
    assert.notEqual(await wireguardKeys(folder, on, log), null);
  });
});
