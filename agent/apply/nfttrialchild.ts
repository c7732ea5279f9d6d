/** Run by nfttrial.ts in a network namespace that is nobody else's; it ends with this process. */
import { tryHere } from './nfttrial.ts';

process.stdout.write(JSON.stringify(await tryHere({ hooked: true })));
