import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Compiled code, types stripped, is kept in the checkout: a shared temporary directory would let others plant code for root.
enableCompileCache(join(import.meta.dirname, '..', 'node_modules', '.cache', 'nodewall'));
const { run } = await import('./program.ts');
process.exitCode = await run(process.argv);
