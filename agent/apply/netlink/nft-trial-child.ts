/** Run by nft-trial.ts in a network namespace that is nobody else's; it ends with this process. */
import { tryHere } from './nft-trial.ts';

process.stdout.write(JSON.stringify(await tryHere({ hooked: true })));
