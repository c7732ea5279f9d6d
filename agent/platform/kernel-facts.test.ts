import assert from 'node:assert/strict';
import { rawProtocolsOf } from './kernel-facts.ts';

describe('raw sockets', () => {
  it('have their IP protocol in the place of the local port', () => {
    const table = [
      '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
      '  112: 00000000:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 31337 2',
      '   58: 00000000000000000000000000000000:003A 00000000000000000000000000000000:0000 07 00000000:0',
      '  255: 0100007F:00FF 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 31338 2',
      '',
    ].join('\n');
    assert.deepEqual(rawProtocolsOf(table), [58, 112, 255]);
    assert.deepEqual(rawProtocolsOf(''), []);
  });
});
