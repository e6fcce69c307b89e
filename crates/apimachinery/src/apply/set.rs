//! Sets of fields, and what can be done with them.
//!
//! A set is a tree. A field can be a member of it without its children, and children can be members without the field: who sets
//! `.spec.replicas` does not own `.spec`.

use std::cmp::Ordering;
use std::fmt;

use super::path::{Path, PathElement};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    // Invariant: in order, no element twice, and no node that is neither a member nor has children.
    nodes: Vec<Node<'a>>,
}

/// A field, whether it is a member, and which of its children are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) element: PathElement<'a>,
    pub(super) branch: Branch<'a>,
}

/// What a set holds of one field: the field itself, and its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Branch<'a> {
    pub(super) member: bool,
    pub(super) children: FieldSet<'a>,
}

impl Branch<'_> {
    pub(super) fn member() -> Self {
        Branch { member: true, children: FieldSet::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl<'a> FieldSet<'a> {
    /// No fields.
    pub const fn new() -> Self {
        FieldSet { nodes: Vec::new() }
    }

    /// A set of these fields.
    pub fn of(paths: impl IntoIterator<Item = Path<'a>>) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// A set of nodes in any order. Of nodes for the same element everything is kept.
    pub(super) fn of_nodes(mut nodes: Vec<Node<'a>>) -> Self {
        if nodes.is_sorted_by(|left, right| left.element < right.element) {
            return FieldSet { nodes };
        }
        nodes.sort_by(|left, right| left.element.cmp(&right.element));
        let mut merged: Vec<Node<'a>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            match merged.last_mut().filter(|last| last.element == node.element) {
                Some(last) => last.branch = std::mem::take(&mut last.branch).union(node.branch),
                None => merged.push(node),
            }
        }
        FieldSet { nodes: merged }
    }

    /// Adds what comes after everything that is there.
    pub(super) fn push(&mut self, element: PathElement<'a>, branch: Branch<'a>) {
        debug_assert!(self.nodes.last().is_none_or(|last| last.element < element));
        if !branch.is_empty() {
            self.nodes.push(Node { element, branch });
        }
    }

    pub(super) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// What it holds of each field, to add to it.
    pub(super) fn branches_mut(&mut self) -> impl Iterator<Item = (&PathElement<'a>, &mut Branch<'a>)> {
        self.nodes.iter_mut().map(|node| (&node.element, &mut node.branch))
    }

    /// Adds a field. Its parents are not added. The empty path is no field.
    pub fn insert(&mut self, path: Path<'a>) {
        let mut set = self;
        let mut elements = path.0.into_iter().peekable();
        while let Some(element) = elements.next() {
            let at = match set.nodes.binary_search_by(|node| node.element.cmp(&element)) {
                Ok(at) => at,
                Err(at) => {
                    set.nodes.insert(at, Node { element, branch: Branch::default() });
                    at
                }
            };
            let branch = &mut set.nodes[at].branch;
            if elements.peek().is_none() {
                branch.member = true;
            }
            set = &mut branch.children;
        }
    }

    /// Whether no field is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many fields are in it.
    pub fn len(&self) -> usize {
        let count = |node: &Node<'_>| usize::from(node.branch.member) + node.branch.children.len();
        self.nodes.iter().map(count).sum()
    }

    /// Whether a field is in it.
    pub fn contains(&self, path: &Path<'_>) -> bool {
        let mut set = self;
        let mut member = false;
        for element in &path.0 {
            let Some(branch) = set.get(element) else { return false };
            member = branch.member;
            set = &branch.children;
        }
        member
    }

    pub(super) fn get(&self, element: &PathElement<'_>) -> Option<&Branch<'a>> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at].branch)
    }

    /// The fields that are in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.nodes.is_empty() {
            return other;
        }
        if other.nodes.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut left = self.nodes.into_iter().peekable();
        let mut right = other.nodes.into_iter().peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.element.cmp(&right.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return FieldSet { nodes },
            };
            match order {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(left), Some(right)) = (left.next(), right.next()) {
                        let branch = left.branch.union(right.branch);
                        nodes.push(Node { element: left.element, branch });
                    }
                }
            }
        }
    }

    /// The fields that are in both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let mut common = FieldSet::new();
        for (left, right) in shared(&self.nodes, &other.nodes) {
            let branch = Branch {
                member: left.branch.member && right.branch.member,
                children: left.branch.children.intersection(&right.branch.children),
            };
            common.push(left.element.clone(), branch);
        }
        common
    }

    /// Whether a field is in both.
    pub fn intersects(&self, other: &FieldSet<'_>) -> bool {
        shared(&self.nodes, &other.nodes).any(|(left, right)| {
            left.branch.member && right.branch.member
                || left.branch.children.intersects(&right.branch.children)
        })
    }

    /// The fields that are not in the other one. Children stay, even if the other one has their parent.
    #[must_use]
    pub fn difference(self, other: &FieldSet<'_>) -> Self {
        self.without(other, |branch, taken| Branch {
            member: branch.member && !taken.member,
            children: branch.children.difference(&taken.children),
        })
    }

    /// The fields that are not in the other one and have no parent there.
    #[must_use]
    pub fn recursive_difference(self, other: &FieldSet<'_>) -> Self {
        self.without(other, |branch, taken| {
            if taken.member {
                return Branch::default();
            }
            Branch { member: branch.member, children: branch.children.recursive_difference(&taken.children) }
        })
    }

    fn without(self, other: &FieldSet<'_>, subtract: impl Fn(Branch<'a>, &Branch<'_>) -> Branch<'a>) -> Self {
        if self.nodes.is_empty() || other.nodes.is_empty() {
            return self;
        }
        let mut taken = other.nodes.iter().peekable();
        let mut rest = FieldSet { nodes: Vec::with_capacity(self.nodes.len()) };
        for node in self.nodes {
            while taken.next_if(|taken| taken.element < node.element).is_some() {}
            match taken.peek().filter(|taken| taken.element == node.element) {
                Some(taken) => rest.push(node.element, subtract(node.branch, &taken.branch)),
                None => rest.nodes.push(node),
            }
        }
        rest
    }

    /// Only the fields that have no children in it.
    #[must_use]
    pub fn leaves(self) -> Self {
        let mut leaves = FieldSet { nodes: Vec::with_capacity(self.nodes.len()) };
        for Node { element, branch } in self.nodes {
            let member = branch.member && branch.children.is_empty();
            leaves.push(element, Branch { member, children: branch.children.leaves() });
        }
        leaves
    }

    /// Every field, those of a level before those below it.
    pub fn paths(&self) -> Vec<Path<'a>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement<'a>>, paths: &mut Vec<Path<'a>>) {
        for node in self.nodes.iter().filter(|node| node.branch.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(Path(path));
        }
        for node in self.nodes.iter().filter(|node| !node.branch.children.is_empty()) {
            prefix.push(node.element.clone());
            node.branch.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// One that borrows from nobody.
    pub fn into_owned(self) -> FieldSet<'static> {
        let nodes = self.nodes.into_iter().map(|node| Node {
            element: node.element.into_owned(),
            branch: Branch { member: node.branch.member, children: node.branch.children.into_owned() },
        });
        FieldSet { nodes: nodes.collect() }
    }
}

impl<'a> Branch<'a> {
    pub(super) fn union(self, other: Branch<'a>) -> Branch<'a> {
        Branch { member: self.member || other.member, children: self.children.union(other.children) }
    }
}

/// The nodes of two sets for the same elements.
fn shared<'n, 'a, 'b>(
    left: &'n [Node<'a>],
    right: &'n [Node<'b>],
) -> impl Iterator<Item = (&'n Node<'a>, &'n Node<'b>)> {
    let mut right = right.iter().peekable();
    left.iter().filter_map(move |left| {
        while right.next_if(|right| right.element < left.element).is_some() {}
        right.next_if(|right| right.element == left.element).map(|right| (left, right))
    })
}

/// A field per line.
impl fmt::Display for FieldSet<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().iter().enumerate() {
            let newline = if at > 0 { "\n" } else { "" };
            write!(formatter, "{newline}{path}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
