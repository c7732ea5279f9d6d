import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { CertificateFiles } from './certificate-files.ts';
import { type CertificateAndKey, makeAuthority } from './issue.ts';
import type { CertificateSource } from './keeper.ts';

describe('CertificateFiles', () => {
  let folder: string;
  let source: CertificateSource;
  let a: CertificateAndKey;
  let b: CertificateAndKey;
  const said: string[] = [];
  const trusted: string[] = [];
  const time = fakeClock();

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-certificates-'));
    [a, b] = [await makeAuthority(new Date()), await makeAuthority(new Date())];
    source = new CertificateFiles({
      certFile: join(folder, 'tls.crt'),
      keyFile: join(folder, 'tls.key'),
      caFile: join(folder, 'ca.crt'),
      trust: (certificates) => void trusted.push(certificates),
      clock: { ...time, date: () => new Date() },
      events: {
        changed: ({ certificate }) => void said.push(certificate === b.certificate ? 'b' : 'a'),
        failed: ({ message }) => void said.push(message),
      },
    });
  });
  after(async () => {
    await source.close();
    await rm(folder, { recursive: true });
  });

  const write = (file: string, text: string): Promise<void> => writeFile(join(folder, file), text);

  async function look(): Promise<void> {
    time.pass(10_000);
    while (time.waiting().length === 0) await new Promise(setImmediate);
  }

  it('rejects missing files and a key that does not fit at the start', async () => {
    await assert.rejects(source.start(), /ca\.crt: ENOENT/);
    await write('ca.crt', 'none');
    await assert.rejects(source.start(), /ca\.crt: no certificate in PEM/);
    await write('ca.crt', a.certificate);
    await assert.rejects(source.start(), /tls\.(crt|key): ENOENT/);
    await write('tls.crt', a.certificate);
    await write('tls.key', 'no key');
    await assert.rejects(source.start(), /tls\.key: no private key in PEM/);
    await write('tls.key', b.key);
    await assert.rejects(source.start(), /tls\.key: not the key of the certificate in .*tls\.crt/);
    await write('tls.crt', 'none');
    await assert.rejects(source.start(), /tls\.crt: no certificate in PEM/);
    await write('tls.crt', a.certificate);
    await write('tls.key', a.key);
    assert.deepEqual(await source.start(), a);
  });

  it('reads the files again, and uses the pair when both files have changed', async () => {
    await look();
    assert.deepEqual(said, []);
    await write('tls.crt', b.certificate);
    await look();
    await look();
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /not the key/);
    await write('tls.key', b.key);
    await look();
    assert.equal(said[1], 'b');
    await look();
    assert.equal(said.length, 2);
  });

  it('reports the CA, and again when it changes', async () => {
    assert.deepEqual(trusted, [a.certificate]);
    await write('ca.crt', b.certificate);
    await look();
    assert.deepEqual(trusted, [a.certificate, b.certificate]);
  });
});
