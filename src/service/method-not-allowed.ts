import type { FastifyInstance, FastifyRequest } from 'fastify';
import { allMethods } from './connection-limits.ts';
import { ProblemError } from './problem-details.ts';

/** The methods that each path has, for the answers to the others. */
export interface MethodRegistry {
  /** As an Allow header has them; null where there is nothing at the path. */
  findAllowedMethods(path: string): string | null;
}

/** Takes note of every route that is added from now on. */
export function recordMethods(app: FastifyInstance): MethodRegistry {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    routes.push({ pattern: toPathPattern(url), methods: [method].flat() });
  });
  return {
    findAllowedMethods(path) {
      const methods = routes.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods);
      return methods.length === 0 ? null : [...new Set([...methods, 'OPTIONS'])].sort().join(', ');
    },
  };
}

/** `/a/:b/*` as an expression; a parameter is a segment, a star the rest. */
function toPathPattern(url: string): RegExp {
  const parts = url.split(/(:[A-Za-z_]\w*|\*)/).map((part) => {
    if (part === '*') return '.*';
    return part.startsWith(':') && part.length > 1 ? '[^/]+' : part.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's');
}

/** Answers for paths and methods that no route has: 204 to OPTIONS, 405 with Allow, 404. */
export function registerNotFoundHandler(app: FastifyInstance, methods: MethodRegistry): void {
  app.addHook('onRequest', async (request, reply) => {
    if (!request.is404) return;
    const allow = request.raw.url === '*' ? allMethods : methods.findAllowedMethods(toPath(request));
    if (allow === null) return;
    if (request.method === 'OPTIONS') return reply.code(204).header('allow', allow).send();
    throw new ProblemError(405, `${request.method} is not among the methods of this path: ${allow}.`, {
      headers: { allow },
    });
  });
  app.setNotFoundHandler(() => {
    throw new ProblemError(404, 'There is nothing at this path.');
  });
}

/** A request's path as the router sees it. */
export function toPath({ raw: { url = '' } }: FastifyRequest): string {
  const [path = ''] = url.split(/[?#]/, 1);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
