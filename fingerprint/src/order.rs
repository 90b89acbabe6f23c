//! Topological order, iteratively: a graph is deeper than any stack.

/// Operators upstream before downstream: depth first from each root in turn, following `upstream` in order.
/// Linear in nodes and edges.
///
/// # Errors
/// An edge (downstream, upstream) that closes a cycle.
pub fn topological(
    upstream: &[Vec<usize>],
    roots: impl IntoIterator<Item = usize>,
) -> Result<Vec<usize>, (usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; upstream.len()];
    let mut order = Vec::with_capacity(upstream.len());
    // Open nodes, and how many of their edges were followed.
    let mut stack: Vec<(usize, usize)> = Vec::new();
    for root in roots {
        if marks[root] == Mark::New {
            marks[root] = Mark::Open;
            stack.push((root, 0));
        }
        while let Some((node, followed)) = stack.last_mut() {
            let node = *node;
            let Some(&next) = upstream[node].get(*followed) else {
                marks[node] = Mark::Done;
                order.push(node);
                stack.pop();
                continue;
            };
            *followed += 1;
            match marks[next] {
                Mark::New => {
                    marks[next] = Mark::Open;
                    stack.push((next, 0));
                }
                Mark::Open => return Err((node, next)),
                Mark::Done => {}
            }
        }
    }
    Ok(order)
}
